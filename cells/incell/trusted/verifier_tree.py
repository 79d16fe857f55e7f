"""The work directory of a verifier: base laid out, patch applied and checked, machinery restored, sealed files laid
over it.

Rules:
1. Files of the candidate are written and patched as the unprivileged user; what root does in the tree follows no link.
2. After the patch every changed path must hold exactly the object that was collected, else the patch does not apply.
3. Machinery that the candidate changed is put back from the base, whatever the policy on the host let through.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from .machinery import machinery_reason, shadow_reason
from .names import decode_name
from .objects import Repository
from .pack import file_id, object_id

BASE = "/assay/base"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class SealedFile:
    """A file of the verifier pack: path in the tree, executable or not, content, or the target of a link."""

    path: bytes
    executable: bool
    content: bytes
    target: bytes | None = None


def lay_base(workdir: str, base: str, user: int) -> None:
    """Empty the work directory and copy the base state into it, owned by the user."""
    if os.listdir(workdir):
        subprocess.run(["find", workdir, "-mindepth", "1", "-delete"], check=True, stdin=subprocess.DEVNULL)
    os.chown(workdir, user, user)
    as_user(["cp", "-a", "--no-preserve=ownership", f"{base}/.", workdir], user).check_returncode()


def as_user(
    command: list[str],
    user: int,
    content: bytes = b"",
    environment: dict[str, str] | None = None,
    cwd: str | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run one of our own commands as the unprivileged user, `content` on its stdin; stdout and stderr captured."""
    return subprocess.run(
        command,
        input=content,
        capture_output=True,
        env=environment,
        cwd=cwd,
        user=user,
        group=user,
        extra_groups=[],
        umask=0o022,
    )


def apply_patch(patch: bytes, workdir: str, scratch: str, user: int) -> str | None:
    """Check, then apply; why it does not apply, None when it does. Attributes of the tree have no say."""
    if not patch:
        return None
    repository = Repository(os.path.join(scratch, "git"), os.path.join(scratch, "nothing"))
    os.unlink(os.path.join(repository.scratch, "objects/info/alternates"))
    environment = {**repository.environment, "GIT_WORK_TREE": workdir}
    command = ["git", "-c", "core.bare=false", "apply", "--whitespace=nowarn"]
    for check in (["--check"], []):
        done = as_user([*command, *check, "-"], user, patch, environment, workdir)
        if done.returncode != 0:
            return done.stderr[-4000:].decode("utf-8", "replace") or f"git apply ended with {done.returncode}"
    return None


def mismatch(workdir: str, changes: Iterable[dict[str, str]]) -> str | None:
    """The first changed path that does not hold what was collected, as `path: expected, found`; None when all do."""
    root = os.open(workdir, _DIRECTORY)
    try:
        for change in changes:
            wanted = (change["new_mode"], change["new"])
            found = _object_at(root, decode_name(change["path"]))
            if found != wanted and not (wanted[0] == "000000" and found is None):
                return f"{change['path']}: expected {wanted}, found {found}"
        return None
    finally:
        os.close(root)


def restore_machinery(
    workdir: str, base: str, paths: Iterable[bytes], runner: str, allowed: set[bytes], roots: list[bytes], user: int
) -> list[bytes]:
    """Put back from the base what steers the runner, among the changed paths; which ones there were."""
    restored = []
    for path in paths:
        before = os.path.join(os.fsencode(base), path)
        new = not os.path.lexists(before)
        if path in allowed or not (machinery_reason(path, runner) or (new and shadow_reason(path, roots))):
            continue
        remove(workdir, path)
        if not new:
            lay(workdir, [_from_base(before, path)], user)
        restored.append(path)
    return restored


def lay(workdir: str, files: Iterable[SealedFile], user: int) -> None:
    """Write sealed files into the tree. A link or file that stands where a directory must be is removed, never
    followed."""
    for file in files:
        *parents, name = file.path.split(b"/")
        directory = os.open(workdir, _DIRECTORY)
        try:
            for parent in parents:
                directory = _enter(directory, parent, user)
            _clear(directory, name)
            _write(directory, name, file, user)
        finally:
            os.close(directory)


def remove(workdir: str, path: bytes) -> None:
    """Remove a path of the tree, whatever it is; a path through a link, or that is not there, is no path of the
    tree."""
    *parents, name = path.split(b"/")
    directory = os.open(workdir, _DIRECTORY)
    try:
        for parent in parents:
            below = os.open(parent, _DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = below
        _clear(directory, name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    finally:
        os.close(directory)


def _from_base(source: bytes, path: bytes) -> SealedFile:
    if os.path.islink(source):
        return SealedFile(path, False, b"", os.readlink(source))
    with open(source, "rb") as file:
        return SealedFile(path, bool(os.fstat(file.fileno()).st_mode & 0o100), file.read())


def _enter(directory: int, name: bytes, user: int) -> int:
    """The directory of that name, made where there is none; closes the one it came from."""
    try:
        below = os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError:
        _clear(directory, name)
        os.mkdir(name, 0o755, dir_fd=directory)
        os.chown(name, user, user, dir_fd=directory, follow_symlinks=False)
        below = os.open(name, _DIRECTORY, dir_fd=directory)
    os.close(directory)
    return below


def _clear(directory: int, name: bytes) -> None:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        shutil.rmtree(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def _write(directory: int, name: bytes, file: SealedFile, user: int) -> None:
    if file.target is not None:
        os.symlink(file.target, name, dir_fd=directory)
        os.chown(name, user, user, dir_fd=directory, follow_symlinks=False)
        return
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o755 if file.executable else 0o644, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as out:
        out.write(file.content)
        os.fchown(descriptor, user, user)


def _object_at(root: int, path: bytes) -> tuple[str, str] | None:
    """(git mode, object id) of a file or link of the tree; None when there is none."""
    *parents, name = path.split(b"/")
    directory = os.dup(root)
    try:
        for parent in parents:
            below = os.open(parent, _DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = below
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return "120000", object_id(b"blob", os.readlink(name, dir_fd=directory))
        if not stat.S_ISREG(status.st_mode):
            return None
        descriptor = os.open(name, _FILE, dir_fd=directory)
        try:
            return ("100755" if status.st_mode & 0o100 else "100644"), file_id(descriptor, status.st_size)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    finally:
        os.close(directory)
