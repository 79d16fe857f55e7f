"""run_meta.json: who ran, on what, and the checksum that binds trace, fingerprint, verification, runtime and
provenance.

Rules (30-evidence 15, 36; 10-architecture "core seven"):
1. cell_id is the digest of start/spec.json; the runtime fingerprint is the digest of `runtime`; a run's identity is
   the pair.
2. `invariant.sha256` is recomputed from the members by every verification of the bundle; a mismatch is altered
   evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import PREFIX, canonical_json, digest_json
from cells.evidence.fs import FileSystem, walk
from cells.evidence.fs import Kind as EntryKind
from cells.evidence.fs_real import REAL
from cells.evidence.manifest import encode_name, member_digest

RUN_META = "run_meta.json"
VERSION = 1
_BOUND = {"trace": "live/trace.jsonl", "fingerprint": "live/fingerprint.txt", "verify": "post/verify.json"}
_PROVENANCE = "provenance/"


@dataclass(frozen=True)
class RunFacts:
    """What the publisher knows about an attempt. `runtime`: engine, versions, image and layer digests, kernel,
    architecture,
    host class, Assay's version and lock digest (25-formats). `more` holds further facts: timings, counters, budget."""

    study: str
    cell: str
    cell_id: str
    attempt: str
    verdict: str
    outcome: str
    runtime: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)


def build_run_meta(stage: Path, facts: RunFacts, fs: FileSystem = REAL) -> bytes:
    """The canonical bytes of run_meta.json for a staged attempt, whose trace, fingerprint, verify and provenance are
    final."""
    clash = facts.more.keys() & {"v", "runtime_sha256", "run_id", "invariant", "runtime", "cell_id", "attempt"}
    if clash:
        raise EvidenceError(f"{RUN_META}: {', '.join(sorted(clash))} is computed, not given")
    runtime = dict(facts.runtime)
    fingerprint = digest_json(runtime)
    return canonical_json(
        {
            **facts.more,
            "v": VERSION,
            "study": facts.study,
            "cell": facts.cell,
            "cell_id": facts.cell_id,
            "attempt": facts.attempt,
            "verdict": facts.verdict,
            "outcome": facts.outcome,
            "runtime": runtime,
            "runtime_sha256": fingerprint,
            "run_id": digest_json([facts.cell_id, fingerprint]),
            "invariant": invariant(_bound_members(stage, fs), fingerprint),
        }
    )


def invariant(members: Mapping[str, str], runtime_sha256: str) -> dict[str, Any]:
    """The invariant checksum and what it binds. `members`: encoded name -> sha256 hex; an absent member is null."""
    bound: dict[str, Any] = {
        name: PREFIX + members[path] if path in members else None for name, path in sorted(_BOUND.items())
    }
    bound["provenance"] = {name: PREFIX + members[name] for name in sorted(members) if name.startswith(_PROVENANCE)}
    bound["runtime"] = runtime_sha256
    return {"binds": bound, "sha256": digest_json(bound)}


def _bound_members(stage: Path, fs: FileSystem) -> dict[str, str]:
    tree = fs.tree(stage)
    try:
        return {
            encode_name(entry.name): member_digest(fs, tree, entry.name)[0]
            for entry in walk(tree)
            if entry.kind is EntryKind.FILE and (entry.name in _BOUND.values() or entry.name.startswith(_PROVENANCE))
        }
    finally:
        tree.close()
