"""An attempt on disk as two types: `LiveAttempt` before the seal, `SealedAttempt` after it.

Rules:
1. A write is checked before anything touches the disk: safe name, row, writer, phase. Every file is created once,
   never replaced.
2. `start/` closes with start/SEAL.json, before the agent starts; `live/` closes with live/SEAL.json, its last member.
3. `post/` does not exist until live/SEAL.json does, and a `LiveAttempt` has no way to write there.
4. A `SealedAttempt` comes only from `LiveAttempt.seal` and from `open_sealed`, which verifies both seals again.
5. Every file in `post/` is chained in post/journal.jsonl, whose first link is the digest of live/SEAL.json: it was
   written by somebody who held the seal.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cells.artifacts import CONTRACT, Contract, Readiness, Role, Row
from cells.artifacts.access import LiveReader, ReaderContract, read_sealed
from cells.artifacts.conditions import Condition
from cells.artifacts.members import digest_regular, member_names
from cells.artifacts.seals import (
    BOUNDARIES,
    JOURNAL,
    LIVE_SEAL,
    START_SEAL,
    append_journal,
    declared_members,
    read_seal,
    refuse_changed_members,
    seal_document,
    write_seal,
)
from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence import files
from cells.evidence.digest import digest_bytes, digest_json

_AFTER_THE_SEAL = ("post/", "provenance/")
_CLOSING = ("run_meta.json", "manifest.json", "signature.json")
_MAKER = object()


class LiveAttempt:
    """An attempt that runs: `start/` until it is sealed, `live/` until the end."""

    def __init__(self, root: Path, contract: Contract = CONTRACT) -> None:
        self.root = root
        self._contract = contract
        self._start_seal: dict[str, Any] | None = None
        self._sealed = False

    @classmethod
    def create(cls, stage: Path, contract: Contract = CONTRACT) -> LiveAttempt:
        """Make `stage` with `start/` and `live/`; `EvidenceError` when something lies there already."""
        try:
            stage.mkdir(parents=True, mode=0o750)
        except FileExistsError as error:
            raise EvidenceError(
                f"{stage}: asked for a new attempt; something lies there, and is never rewritten"
            ) from error
        for phase in ("start", "live"):
            (stage / phase).mkdir(mode=0o750)
        return cls(stage, contract)

    @classmethod
    def reopen(cls, stage: Path, contract: Contract = CONTRACT) -> LiveAttempt:
        """An attempt whose live side died before its seal, so that it can be sealed as lost.

        `EvidenceError` when its start was sealed and has changed since.
        """
        attempt = cls(stage, contract)
        if _is_file(stage / START_SEAL):
            attempt._start_seal = read_seal(stage, "start")
            refuse_changed_members(stage, "start", attempt._start_seal)
        return attempt

    def write(self, name: str, content: bytes, writer: str) -> str:
        """Create a file whole and durable; its digest. `BoundaryViolation` for a wrong name, writer or phase."""
        path = self._admit(name, writer)
        try:
            files.write_new(path, content)
        except FileExistsError as error:
            raise EvidenceError(f"artifact {name!r}: written already; a file of an attempt is created once") from error
        return digest_bytes(content)

    def append(self, name: str, content: bytes, writer: str, *, sync: bool = True) -> None:
        """Append to a record that grows while the run is active."""
        row = self._contract.row_for(name)
        if Readiness.LIVE_PREFIX not in row.ready:
            raise BoundaryViolation(
                f"artifact {name!r}: asked to append; it is ready {row.ready_words()}, written once"
            )
        files.append(self._admit(name, writer), content, sync=sync)

    def claim(self, name: str, writer: str) -> Path:
        """The checked path of a live file that another process of ours grows; its folder exists, the file need not."""
        return self._admit(name, writer)

    def reader(self, reader: ReaderContract) -> LiveReader:
        """The files that one live reader may open."""
        return LiveReader(self.root, reader, self._contract)

    def seal_start(self, boundary: str, versions: Mapping[str, Any]) -> str:
        """Close `start/`: digests, boundary mechanism and its versions, read-only; the digest of the seal."""
        if self._start_seal is not None:
            raise BoundaryViolation(f"{START_SEAL}: asked to seal the start again; it is sealed once")
        if boundary not in BOUNDARIES:
            raise BoundaryViolation(f"{START_SEAL}: boundary {boundary!r}; allowed are {', '.join(BOUNDARIES)}")
        seal = seal_document("start", declared_members(self.root, "start", self._contract), None)
        seal |= {"boundary": boundary, "versions": dict(versions)}
        digest = write_seal(self.root, START_SEAL, seal)
        self._start_seal = seal
        return digest

    def seal(self, findings: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> SealedAttempt:
        """Close `live/`: call it when the container is dead and every writer of ours has closed its files.

        `EvidenceError` when `start/` changed since its seal; `UndeclaredArtifact` for a live file without a row.
        """
        start = self._start_seal
        if start is None or self._sealed:
            found = "it is sealed already" if self._sealed else "start/ is not sealed"
            raise BoundaryViolation(f"{LIVE_SEAL}: asked to seal the attempt; {found}")
        refuse_changed_members(self.root, "start", start)
        members = declared_members(self.root, "live", self._contract)
        seal = seal_document("live", members, digest_regular(self.root / START_SEAL))
        seal |= {"boundary": start["boundary"], "versions": start["versions"]}
        seal |= {"findings": [dict(finding) for finding in findings], "facts": dict(facts)}
        write_seal(self.root, LIVE_SEAL, seal)
        self._sealed = True
        return SealedAttempt(self.root, seal, self._contract, _MAKER)

    def _admit(self, name: str, writer: str) -> Path:
        row = self._contract.row_for(name)
        _check_writer(row, name, writer)
        phase = name.split("/", 1)[0]
        if phase not in ("start", "live"):
            raise BoundaryViolation(
                f"artifact {name!r} written by {writer} at live-prefix; ready {row.ready_words()}: after the seal only"
            )
        closed = self._sealed or (phase == "start" and self._start_seal is not None)
        if closed or name in (START_SEAL, LIVE_SEAL):
            raise BoundaryViolation(f"artifact {name!r} written by {writer}: {phase}/ is closed by its seal")
        return _path_in(self.root, name)


class SealedAttempt:
    """An attempt whose live side is over: what post-run code takes. Made by `seal` and `open_sealed` only."""

    def __init__(self, root: Path, seal: Mapping[str, Any], contract: Contract, maker: object) -> None:
        if maker is not _MAKER:
            raise BoundaryViolation(
                "a SealedAttempt is made by LiveAttempt.seal and open_sealed, which verify the seals"
            )
        self.root = root
        self.seal = dict(seal)
        self.seal_digest = digest_json(self.seal)
        """sha256 of live/SEAL.json."""
        self._contract = contract
        self._swept = False

    @property
    def facts(self) -> dict[str, Any]:
        """The live facts: ended, detail, exit_code, timings, counters, budget, exposure, base."""
        return dict(self.seal["facts"])

    def read(self, name: str, role: Role | str, purpose: Condition | None = None) -> bytes:
        """A file for a post-run role; a conditional one for the purpose that its row states. `BoundaryViolation`."""
        return read_sealed(self.root, name, Role(role), purpose, self._contract)

    def has(self, name: str) -> bool:
        """Whether the file exists; its row is checked."""
        self._contract.row_for(name)
        return _is_file(self.root / name)

    def names(self) -> list[str]:
        """All files of the attempt, sorted; unfinished ones of a post-run step that died are none."""
        return [name for name in member_names(self.root) if not _is_partial(name)]

    def write(self, name: str, content: bytes, writer: str) -> str:
        """Create a post-run file whole and durable; its digest. `EvidenceError` when it exists."""
        return self.stream(name, (content,), writer)

    def stream(self, name: str, chunks: Iterable[bytes], writer: str) -> str:
        """Create a post-run file from chunks; its digest. A stream that breaks leaves no file under the name."""
        path = self._admit(name, writer)
        if _is_file(path):
            raise EvidenceError(f"artifact {name!r}: written already; a post-run file is created once")
        self._sweep_partials()
        partial = path.with_name(f".{path.name}.part")
        _write_partial(partial, chunks)
        digest = digest_regular(partial)
        if name.startswith("post/"):
            append_journal(_path_in(self.root, JOURNAL), name, digest, str(writer), self.seal_digest)
        os.rename(partial, path)
        files.sync_directory(path.parent)
        return digest

    def discard(self, name: str, writer: str) -> None:
        """Take away a file of a post-run step that died before its last file: the step runs anew. Its journal row
        stays.

        `BoundaryViolation` for anything but a post-run file of an attempt that is not closed yet.
        """
        path = self._admit(name, writer)
        if not name.startswith("post/") or _is_file(self.root / "manifest.json"):
            raise BoundaryViolation(
                f"artifact {name!r}: asked to discard; only files in post/ of an open attempt can be"
            )
        path.unlink(missing_ok=True)
        files.sync_directory(path.parent)

    def _admit(self, name: str, writer: str) -> Path:
        row = self._contract.row_for(name)
        _check_writer(row, name, writer)
        if name == JOURNAL or not (name.startswith(_AFTER_THE_SEAL) or name in _CLOSING):
            raise BoundaryViolation(
                f"artifact {name!r} written by {writer} at post-run; allowed after the seal are post/, provenance/ and "
                f"{', '.join(_CLOSING)} (the journal is written with each of them)"
            )
        return _path_in(self.root, name)

    def _sweep_partials(self) -> None:
        """Remove what a step that died left unfinished: it never was a file of the attempt."""
        if not self._swept:
            for name in filter(_is_partial, member_names(self.root)):
                (self.root / name).unlink()
            self._swept = True


def open_sealed(root: Path, contract: Contract = CONTRACT) -> SealedAttempt:
    """A sealed attempt from disk; `EvidenceError` names what is missing, added or changed since the seals."""
    start, live = read_seal(root, "start"), read_seal(root, "live")
    if live["previous"] != digest_regular(root / START_SEAL):
        raise EvidenceError(f"{root / LIVE_SEAL}: it continues another start seal than the one beside it")
    refuse_changed_members(root, "start", start)
    refuse_changed_members(root, "live", live)
    return SealedAttempt(root, live, contract, _MAKER)


def _check_writer(row: Row, name: str, writer: str) -> None:
    if writer not in row.writers:
        allowed = ", ".join(sorted(one.value for one in row.writers)) or "nobody of ours"
        raise BoundaryViolation(f"artifact {name!r}: written by {writer!r}; its row allows {allowed}")


def _path_in(root: Path, name: str) -> Path:
    """Make the folders of a checked name, none of them a link; the path of the file."""
    folder = root
    for segment in name.split("/")[:-1]:
        folder = folder / segment
        try:
            folder.mkdir(mode=0o750)
        except FileExistsError:
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise BoundaryViolation(f"{folder}: expected a directory of ours") from None
    return root / name


def _write_partial(path: Path, chunks: Iterable[bytes]) -> None:
    files.write_new(path, b"", mode=0o640)
    for chunk in chunks:
        files.append(path, chunk, sync=False)
    files.append(path, b"", sync=True)
    path.chmod(0o440)


def _is_partial(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    return last.startswith(".") and last.endswith(".part") and name.startswith(_AFTER_THE_SEAL)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
