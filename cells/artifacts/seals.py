"""Seals and the post-run journal as documents: made, read, compared with what lies on disk.

`SEAL.json`: `{v, phase, members: {name: digest}, previous, boundary, versions, findings}` and, for live, `facts`;
names are relative to the attempt, bytes are RFC 8785. `journal.jsonl`: `{v, seq, name, digest, writer, prev}`; the
first `prev` is the digest of live/SEAL.json, later ones the digest of the row before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from cells.artifacts.members import digest_regular, digests, member_names
from cells.artifacts.table import Contract
from cells.errors import EvidenceError
from cells.evidence import files
from cells.evidence.digest import canonical_json, digest_bytes

SEAL_VERSION = 1
START_SEAL, LIVE_SEAL, JOURNAL = "start/SEAL.json", "live/SEAL.json", "post/journal.jsonl"
BOUNDARIES = ("bwrap", "container", "uid", "none")
"""What held live readers, strongest first; `none` can never be reported as enforced."""


class SealFile(BaseModel):
    """`start/SEAL.json` and `live/SEAL.json`; the live one has `previous` and `facts`, and continues the start's."""

    model_config = ConfigDict(extra="forbid", strict=True)

    v: Literal[1]
    phase: Literal["start", "live"]
    members: dict[str, str]
    """Digests by name, names relative to the attempt; the seal itself is no member."""
    boundary: Literal["bwrap", "container", "uid", "none"]
    versions: dict[str, Any]
    previous: str | None
    """Digest of start/SEAL.json."""
    findings: list[dict[str, Any]]
    facts: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _of_its_phase(self) -> SealFile:
        if (self.phase == "live") != (self.previous is not None and self.facts is not None):
            raise ValueError("previous and facts stand in the live seal, and only there")
        return self


class JournalRow(BaseModel):
    """A row of `post/journal.jsonl`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    v: Literal[1]
    seq: int
    name: str
    digest: str
    writer: str
    prev: str
    """Digest of the row before, or of live/SEAL.json."""


def seal_document(phase: str, members: Mapping[str, str], previous: str | None) -> dict[str, Any]:
    """The fields that both seals share."""
    return {"v": SEAL_VERSION, "phase": phase, "members": dict(members), "previous": previous, "findings": []}


def declared_members(root: Path, phase: str, contract: Contract) -> dict[str, str]:
    """Digests of all files of a phase; `UndeclaredArtifact` for one without a row."""
    names = member_names(root, phase)
    for name in names:
        contract.row_for(name)
    return digests(root, names)


def write_seal(root: Path, name: str, seal: Mapping[str, Any]) -> str:
    """Write a seal as the last member of its phase, then make the phase read-only; the digest of the seal."""
    content = canonical_json(seal)
    files.write_new(root / name, content)
    _make_read_only(root / name.split("/", 1)[0])
    return digest_bytes(content)


def read_seal(root: Path, phase: str) -> dict[str, Any]:
    """A seal from disk, its shape and canonical bytes checked; `EvidenceError`."""
    path = root / phase / "SEAL.json"
    content = files.read_regular(path)
    seal = files.read_json(path)
    try:
        found = SealFile.model_validate(seal)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise EvidenceError(f"{path}: expected a version {SEAL_VERSION} seal; {where}: {first['msg']}") from error
    if found.phase != phase:
        raise EvidenceError(f"{path}: expected the seal of {phase}, found that of {found.phase}")
    if canonical_json(seal) != content:
        raise EvidenceError(f"{path}: not in its canonical form")
    return dict(seal)


def changed_members(root: Path, phase: str, seal: Mapping[str, Any]) -> list[str]:
    """What differs between a phase's folder and its seal: one line a file, empty when nothing does."""
    sealed: dict[str, str] = dict(seal["members"])
    names = [name for name in member_names(root, phase) if name != f"{phase}/SEAL.json"]
    problems = [f"{name}: missing since the seal" for name in sorted(set(sealed) - set(names))]
    problems += [f"{name}: added after the seal" for name in sorted(set(names) - set(sealed))]
    problems += [
        f"{name}: changed after the seal"
        for name in names
        if name in sealed and digest_regular(root / name) != sealed[name]
    ]
    return problems


def refuse_changed_members(root: Path, phase: str, seal: Mapping[str, Any]) -> None:
    """`EvidenceError` that names up to five differences."""
    if problems := changed_members(root, phase, seal):
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise EvidenceError(f"{root}: not what was sealed: {'; '.join(problems[:5])}{more}")


def journal_rows(content: bytes) -> list[bytes]:
    """The whole rows of a journal; a row torn by a power loss is none, and later rows continue after it."""
    return [line for line in content.split(b"\n")[:-1] if _is_row(line)]


def append_journal(path: Path, name: str, digest: str, writer: str, seal_digest: str) -> None:
    """Chain one post-run file into the journal, before the file takes its name."""
    content = files.read_regular(path) if path.exists() else b""
    torn = bool(content) and not content.endswith(b"\n")
    lines = journal_rows(content)
    row = {
        "v": SEAL_VERSION,
        "seq": len(lines),
        "name": name,
        "digest": digest,
        "writer": writer,
        "prev": digest_bytes(lines[-1]) if lines else seal_digest,
    }
    files.append(path, b"\n" * torn + canonical_json(row) + b"\n", sync=False)


def _is_row(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _make_read_only(folder: Path) -> None:
    """Files 0440, folders 0550, durable: a slip of ours fails, and whoever changes it has to mean it."""
    for name in member_names(folder):
        (folder / name).chmod(0o440)
    inner = sorted((one for one in folder.rglob("*") if one.is_dir()), reverse=True)
    for directory in (*inner, folder):
        files.sync_directory(directory)
        directory.chmod(0o550)
