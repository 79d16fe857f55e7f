"""What an attempt's bundle says about itself beyond its manifest: seals, journal, invariant, identity, declared names.

Rules (30-evidence 15, 18, 21, 23, 36; 25-formats "Seals and bundles"):
1. Members were hashed when the manifest was checked; here their digests are compared with what the seals and
   run_meta.json bind.
2. start/SEAL.json and live/SEAL.json name exactly the files of their phase; the live seal names the digest of the
   start seal.
3. cell_id is the digest of start/spec.json; ids in manifest, run_meta and spec agree; the invariant is recomputed.
4. A name without a row in the contract is undeclared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from cells.artifacts import Scope, UndeclaredArtifact, row_for
from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence.digest import PREFIX, digest_json
from cells.evidence.fs import FileSystem, read_handle
from cells.evidence.fs_real import REAL
from cells.evidence.manifest import MANIFEST, Statement, decode_name
from cells.evidence.problem import Problem
from cells.evidence.run_meta import RUN_META, invariant

START_SEAL, LIVE_SEAL, JOURNAL, SPEC = "start/SEAL.json", "live/SEAL.json", "post/journal.jsonl", "start/spec.json"
_SCOPES = {
    "attempt": Scope.ATTEMPT,
    "lost_attempt": Scope.ATTEMPT,
    "verification": Scope.VERIFICATION,
    "score": Scope.RESCORE,
    "replay": Scope.REPLAY,
    "branch_point": Scope.BRANCH_POINT,
    "branch_attempt": Scope.BRANCH,
}
_LIMIT = 64 << 20

Read = Callable[[str], Any]


def claim_problems(bundle: Path, statement: Statement, fs: FileSystem = REAL) -> list[Problem]:
    """What the claims inside a bundle contradict; call it for bundles whose members equal their manifest."""
    problems = undeclared(statement)
    if statement.kind not in ("attempt", "lost_attempt"):
        return problems
    tree = fs.tree(bundle)

    def read(name: str) -> Any:
        if tree.status(name).size > _LIMIT:
            raise EvidenceError(f"{name}: larger than {_LIMIT} bytes")
        handle = tree.open(name)
        try:
            return read_handle(fs, handle)
        finally:
            fs.close(handle)

    try:
        problems += _guarded(RUN_META, "invariant", lambda: _run_meta_problems(statement, json.loads(read(RUN_META))))
        problems += _guarded(SPEC, "invariant", lambda: _spec_problems(statement, json.loads(read(SPEC))))
        for phase, name in (("start", START_SEAL), ("live", LIVE_SEAL)):
            if name in statement.members:
                problems += _guarded(name, "seal", partial(_sealed_as, statement, phase, read))
            elif statement.kind == "attempt":
                problems.append(Problem(name, "seal", f"{phase}/ was never sealed"))
        if JOURNAL in statement.members:
            problems += _guarded(JOURNAL, "seal", lambda: _journal_problems(statement, read(JOURNAL)))
    finally:
        tree.close()
    return sorted(problems)


def undeclared(statement: Statement) -> list[Problem]:
    """Members that no row of the contract names, for kinds that the contract knows."""
    scope = _SCOPES.get(statement.kind)
    if scope is None:
        return []
    return [
        Problem(name, "undeclared", f"no row of the contract names it in scope {scope}")
        for name in statement.members
        if not _is_declared(name, scope)
    ]


@lru_cache(maxsize=65536)
def _is_declared(name: str, scope: Scope) -> bool:
    try:
        row_for(decode_name(name), scope)
    except (UndeclaredArtifact, BoundaryViolation):
        return False
    return True


def _run_meta_problems(statement: Statement, meta: dict[str, Any]) -> list[Problem]:
    if meta["v"] != 1:
        return [Problem(RUN_META, "version", f"schema version {meta['v']!r}; this version of Assay reads 1")]
    problems = [
        Problem(RUN_META, "invariant", f"{key} is {meta.get(theirs)!r} here, {statement.ids.get(key)!r} in {MANIFEST}")
        for key, theirs in (
            ("cell_id", "cell_id"),
            ("attempt", "attempt"),
            ("cell", "cell"),
            ("verdict", "verdict"),
            ("runtime", "runtime_sha256"),
        )
        if meta.get(theirs) != statement.ids.get(key)
    ]
    fingerprint = digest_json(meta["runtime"])
    if fingerprint != meta["runtime_sha256"]:
        problems.append(Problem(RUN_META, "invariant", f"runtime has the digest {fingerprint}, not runtime_sha256"))
    if meta["run_id"] != digest_json([meta["cell_id"], fingerprint]):
        problems.append(Problem(RUN_META, "invariant", "run_id is not the digest of cell_id and runtime_sha256"))
    expected = invariant(statement.members, fingerprint)
    if meta["invariant"] != expected:
        problems.append(Problem(RUN_META, "invariant", f"recomputed invariant is {expected['sha256']}"))
    return problems


def _spec_problems(statement: Statement, spec: Any) -> list[Problem]:
    found = digest_json(spec)
    if found != statement.ids.get("cell_id"):
        return [
            Problem(SPEC, "invariant", f"its digest is {found}, the bundle's cell_id {statement.ids.get('cell_id')}")
        ]
    return []


def _sealed_as(statement: Statement, phase: str, read: Read) -> list[Problem]:
    return _seal_problems(statement, phase, json.loads(read(f"{phase}/SEAL.json")))


def _seal_problems(statement: Statement, phase: str, seal: dict[str, Any]) -> list[Problem]:
    name = f"{phase}/SEAL.json"
    if seal["v"] != 1 or seal["phase"] != phase:
        return [Problem(name, "version", f"version {seal['v']!r}, phase {seal['phase']!r}; expected 1, {phase}")]
    sealed = {path: digest.removeprefix(PREFIX) for path, digest in seal["members"].items()}
    actual = {
        decode_name(member): digest
        for member, digest in statement.members.items()
        if member.startswith(f"{phase}/") and member != name
    }
    problems = [
        Problem(
            path,
            "seal",
            f"differs from {name}" if path in sealed and path in actual else f"not in both {name} and {MANIFEST}",
        )
        for path in sorted(sealed.keys() | actual.keys())
        if sealed.get(path) != actual.get(path)
    ]
    if phase == "live" and seal["previous"] != PREFIX + statement.members.get(START_SEAL, ""):
        problems.append(Problem(name, "seal", f"continues {seal['previous']}, which is not {START_SEAL}"))
    return problems


def _journal_problems(statement: Statement, content: bytes) -> list[Problem]:
    """Every post-run file was written by somebody who held the seal: the chain starts at the live seal's digest."""
    written: dict[str, str] = {}
    for line in content.split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # torn by a crash: a resumed attempt goes on after it, and writes the file and its row again
        if isinstance(row, dict):
            written[str(row["name"])] = str(row["digest"])
    return [
        Problem(member, "seal", f"not as {JOURNAL} has it ({written.get(decode_name(member))})")
        for member, digest in statement.members.items()
        if member.startswith("post/") and member != JOURNAL and written.get(decode_name(member)) != PREFIX + digest
    ]


def _guarded(name: str, kind: str, check: Callable[[], list[Problem]]) -> list[Problem]:
    try:
        return check()
    except (KeyError, TypeError, ValueError, AttributeError, EvidenceError, OSError) as error:
        return [Problem(name, kind, f"cannot be read as what it should be ({type(error).__name__}: {error})")]
