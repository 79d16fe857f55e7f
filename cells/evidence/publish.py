"""Publishing: the one path by which a staged directory or file becomes evidence.

Order (30-evidence 1-6): every member fsynced, reopened and rehashed against the statement -> manifest.json last ->
directories fsynced
-> one atomic rename that replaces nothing -> parents fsynced.

Rules:
1. A unit exists only under its destination, whole, with its marker; a crash at any step leaves a stage, or the
   published unit.
2. Create-only: what already stands at the destination is adopted when it is valid and byte-identical, refused
   otherwise.
3. After a failed fsync the kernel may hold bytes that the disk does not: the stage is set aside as abandoned, and
   never fsynced again.
4. An error after the rename means that the outcome is unknown; running again finds the unit, and fsyncs the parents
   again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cells.errors import ConflictError, EvidenceError
from cells.evidence.digest import digest_bytes
from cells.evidence.fs import FileSystem, Kind, Tree, create_durable, digest_handle, make_directories, walk
from cells.evidence.fs_real import REAL
from cells.evidence.manifest import MANIFEST, Statement, encode_name, read_statement, verify_bundle
from cells.evidence.removal import remove_tree

ABANDONED = ".abandoned"
"""Suffix of a stage whose fsync failed."""
_READ_ONLY = 0o550


@dataclass(frozen=True)
class Published:
    """This call published the unit."""

    path: Path
    digest: str


@dataclass(frozen=True)
class Already:
    """The same bytes were already published; this stage was removed."""

    path: Path
    digest: str


class StageAbandoned(EvidenceError):
    """An fsync of the stage failed; it was set aside and must not be published. `salvage` copies what can be proved
    to a new stage."""


def publish(stage: Path, destination: Path, statement: Statement, fs: FileSystem = REAL) -> Published | Already:
    """Publish a staged directory whose members are those of `statement`.

    Raises ConflictError when other bytes are published there, EvidenceError when the stage is not what the statement
    says,
    StageAbandoned after a failed fsync, OSError from the disk (then nothing is visible, or the outcome is unknown:
    run again).
    """
    if fs.status(destination) is not None:
        return _adopt(stage, destination, statement, fs)
    _make_durable(stage, statement, fs)
    make_directories(fs, destination.parent)
    try:
        fs.move_new(stage, destination)
    except FileExistsError:
        return _adopt(stage, destination, statement, fs)
    fs.set_mode(destination, _READ_ONLY)
    _sync_parents(stage, destination, fs)
    return Published(destination, statement.digest)


def publish_file(stage: Path, destination: Path, fs: FileSystem = REAL) -> Published | Already:
    """Publish one staged file (an export, a revision): fsync, reopen and rehash, one rename that replaces nothing,
    fsync of the
    parents. ConflictError when another file is there; an equal one is adopted and the stage removed."""
    handle = fs.open_plain(stage)
    try:
        digest, size = digest_handle(fs, handle)
        _fsync(fs, handle, stage)
    finally:
        fs.close(handle)
    if _digest(fs, stage) != (digest, size):
        raise EvidenceError(f"{stage}: reads back differently after its fsync")
    make_directories(fs, destination.parent)
    outcome: type[Published] | type[Already] = Published
    try:
        fs.move_new(stage, destination)
    except FileExistsError:
        if _digest(fs, destination) != (digest, size):
            raise ConflictError(f"{destination}: another file is already there; nothing was replaced") from None
        fs.unlink(stage)
        outcome = Already
    _sync_parents(stage, destination, fs)
    return outcome(destination, f"sha256:{digest}")


def _make_durable(stage: Path, statement: Statement, fs: FileSystem) -> None:
    tree = fs.tree(stage)
    try:
        directories = [stage]
        names: set[str] = set()
        for entry in walk(tree):
            if entry.kind is Kind.DIRECTORY:
                directories.append(stage / entry.name)
            elif entry.name != MANIFEST:
                names.add(encode_name(entry.name))
                _sync_member(tree, stage, entry.name, statement, fs)
                if entry.mode & 0o222:
                    fs.set_mode(stage / entry.name, 0o440)
        if names != statement.members.keys():
            odd = sorted(names ^ statement.members.keys())
            raise EvidenceError(f"{stage}: members differ from the statement: {', '.join(odd[:5])}")
    finally:
        tree.close()
    _write_marker(stage, statement, fs)
    for directory in reversed(directories):
        _sync_directory(fs, directory, stage)
        if directory != stage:
            fs.set_mode(directory, _READ_ONLY)


def _sync_member(tree: Tree, stage: Path, name: str, statement: Statement, fs: FileSystem) -> None:
    handle = tree.open(name)
    try:
        _fsync(fs, handle, stage)
    finally:
        fs.close(handle)
    handle = tree.open(name)
    try:
        digest, size = digest_handle(fs, handle)
    finally:
        fs.close(handle)
    encoded = encode_name(name)
    if statement.members.get(encoded) != digest or statement.sizes.get(encoded) != size:
        raise EvidenceError(
            f"{stage / name}: expected sha256:{statement.members.get(encoded)}, read back {size} bytes sha256:{digest}"
        )


def _write_marker(stage: Path, statement: Statement, fs: FileSystem) -> None:
    """The manifest, last; one that a killed publisher left is kept when whole, written again when not (it marked
    nothing yet)."""
    path, content = stage / MANIFEST, statement.to_bytes()
    if fs.status(path) is not None:
        fs.unlink(path)
    try:
        create_durable(fs, path, content)
    except OSError:
        _abandon(fs, stage)
        raise
    if _digest(fs, path) != (digest_bytes(content).removeprefix("sha256:"), len(content)):
        raise EvidenceError(f"{path}: reads back differently after its fsync")


def _adopt(stage: Path, destination: Path, statement: Statement, fs: FileSystem) -> Already:
    problems = verify_bundle(destination, fs)
    if problems:
        found = f"{problems[0].path}: {problems[0].kind}: {problems[0].detail}"
        raise ConflictError(
            f"{destination}: something that is not a valid bundle stands there ({found}); nothing was replaced"
        )
    _, digest = read_statement(destination, fs)
    if digest != statement.digest:
        raise ConflictError(
            f"{destination}: {digest} is published there, asked for {statement.digest}; nothing was replaced"
        )
    remove_tree(stage, fs)
    fs.set_mode(destination, _READ_ONLY)
    _sync_parents(stage, destination, fs)
    return Already(destination, digest)


def _sync_parents(stage: Path, destination: Path, fs: FileSystem) -> None:
    fs.sync_directory(destination.parent)
    if stage.parent != destination.parent:
        fs.sync_directory(stage.parent)


def _fsync(fs: FileSystem, handle: int, stage: Path) -> None:
    try:
        fs.fsync(handle)
    except OSError as error:
        raise _abandoned(fs, stage, error) from error


def _sync_directory(fs: FileSystem, directory: Path, stage: Path) -> None:
    try:
        fs.sync_directory(directory)
    except OSError as error:
        raise _abandoned(fs, stage, error) from error


def _abandoned(fs: FileSystem, stage: Path, error: OSError) -> StageAbandoned:
    _abandon(fs, stage)
    return StageAbandoned(f"{stage}: fsync failed ({error}); set aside as {stage.name}{ABANDONED}, not published")


def _abandon(fs: FileSystem, stage: Path) -> None:
    try:
        fs.move_new(stage, stage.with_name(stage.name + ABANDONED))
    except OSError:
        return  # the disk refuses even this; the caller's error already says that nothing was published


def _digest(fs: FileSystem, path: Path) -> tuple[str, int]:
    handle = fs.open_plain(path)
    try:
        return digest_handle(fs, handle)
    finally:
        fs.close(handle)
