"""The real file system behind the seam: no-follow opens, beneath-only trees, no-replace renames.

Rules:
1. Below a tree, names are opened by openat2 with BENEATH, NO_SYMLINKS, NO_MAGICLINKS and NO_XDEV; where the kernel
   has no openat2,
   component by component with O_NOFOLLOW and a device check.
2. `move_new` is renameat2(RENAME_NOREPLACE). Where the file system lacks it, a plain rename: a bundle is never an
   empty directory, and
   rename(2) refuses to replace a directory that is not empty, so the only thing that could be lost is an empty
   directory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

from cells.evidence.fs import Entry, Kind

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SYS_OPENAT2 = 437
_RESOLVE = 0x01 | 0x02 | 0x04 | 0x08  # NO_XDEV | NO_MAGICLINKS | NO_SYMLINKS | BENEATH
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class RealTree:
    """A directory of the real file system, held open."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _DIRECTORY)
        self._device = os.fstat(self._root).st_dev

    def entries(self, name: str = "") -> list[Entry]:
        descriptor = self._reach(name, _DIRECTORY)
        try:
            prefix = f"{name}/" if name else ""
            with os.scandir(descriptor) as found:
                return sorted(
                    (_entry(prefix + one.name, one.stat(follow_symlinks=False)) for one in found),
                    key=lambda entry: entry.name,
                )
        finally:
            os.close(descriptor)

    def status(self, name: str = "") -> Entry:
        if not name:
            return _entry("", os.fstat(self._root))
        parent, _, last = name.rpartition("/")
        descriptor = self._reach(parent, _DIRECTORY)
        try:
            return _entry(name, os.stat(last, dir_fd=descriptor, follow_symlinks=False))
        finally:
            os.close(descriptor)

    def open(self, name: str) -> int:
        return self._reach(name, _PLAIN)

    def target(self, name: str) -> str:
        parent, _, last = name.rpartition("/")
        descriptor = self._reach(parent, _DIRECTORY)
        try:
            return os.readlink(last, dir_fd=descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _reach(self, name: str, flags: int) -> int:
        if not name:
            return os.open(".", flags, dir_fd=self._root)
        descriptor = open_beneath(self._root, name, flags)
        return self._by_component(name, flags) if descriptor is None else descriptor

    def _by_component(self, name: str, flags: int) -> int:
        *parents, last = name.split("/")
        if ".." in (*parents, last):
            raise OSError(errno.EXDEV, "not beneath the tree", name)
        current = os.dup(self._root)
        try:
            for part in parents:
                inner = os.open(part, _DIRECTORY, dir_fd=current)
                os.close(current)
                current = inner
            reached = os.open(last, flags, dir_fd=current)
        finally:
            os.close(current)
        if os.fstat(reached).st_dev != self._device:
            os.close(reached)
            raise OSError(errno.EXDEV, "on another device", name)
        return reached


def open_beneath(root: int, name: str, flags: int) -> int | None:
    """A descriptor for a name below an open directory, None where the kernel has no openat2; OSError when it escapes
    or is a link."""
    how = _How(flags, 0, _RESOLVE)
    while True:
        found = int(
            _libc.syscall(_SYS_OPENAT2, root, ctypes.c_char_p(os.fsencode(name)), ctypes.byref(how), ctypes.sizeof(how))
        )
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM):
            return None
        if number not in (errno.EINTR, errno.EAGAIN):
            raise OSError(number, os.strerror(number), name)


class RealFileSystem:
    """The operations of `FileSystem` on this machine."""

    def tree(self, root: Path) -> RealTree:
        return RealTree(root)

    def status(self, path: Path) -> Entry | None:
        try:
            return _entry(path.name, os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def create(self, path: Path, mode: int = 0o440) -> int:
        return os.open(path, _NEW, mode)

    def open_append(self, path: Path, mode: int = 0o640) -> int:
        return os.open(path, _APPEND, mode)

    def open_plain(self, path: Path) -> int:
        return os.open(path, _PLAIN)

    def read(self, handle: int, size: int) -> bytes:
        return os.read(handle, size)

    def write(self, handle: int, content: bytes) -> int:
        return os.write(handle, content)

    def seek(self, handle: int, offset: int) -> None:
        os.lseek(handle, offset, os.SEEK_SET)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def fsync(self, handle: int) -> None:
        os.fsync(handle)

    def close(self, handle: int) -> None:
        os.close(handle)

    def make_directory(self, path: Path, mode: int = 0o750) -> None:
        os.mkdir(path, mode)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def move_new(self, source: Path, destination: Path) -> None:
        number = _rename_no_replace(os.fsencode(source), os.fsencode(destination))
        if number in _UNSUPPORTED and not os.path.lexists(destination):
            _move_without_renameat2(source, destination)
        elif number:
            raise OSError(number, os.strerror(number), str(destination))

    def replace(self, source: Path, destination: Path) -> None:
        os.replace(source, destination)

    def link(self, source: Path, destination: Path) -> None:
        os.link(source, destination, follow_symlinks=False)

    def make_link(self, path: Path, target: str) -> None:
        os.symlink(target, path)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def remove_directory(self, path: Path) -> None:
        os.rmdir(path)

    def set_mode(self, path: Path, mode: int) -> None:
        descriptor = os.open(path, _PLAIN)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


REAL = RealFileSystem()


def _rename_no_replace(source: bytes, destination: bytes) -> int:
    """0, or the error number of renameat2."""
    while True:
        if _libc.renameat2(_AT_FDCWD, source, _AT_FDCWD, destination, _RENAME_NOREPLACE) == 0:
            return 0
        number = ctypes.get_errno()
        if number != errno.EINTR:
            return number


def _move_without_renameat2(source: Path, destination: Path) -> None:
    """Rule 2 for directories; for a file, a create-only link and then the old name is removed."""
    if stat.S_ISDIR(os.lstat(source).st_mode):
        os.rename(source, destination)
        return
    os.link(source, destination, follow_symlinks=False)
    os.unlink(source)


def _entry(name: str, status: os.stat_result) -> Entry:
    return Entry(
        name=name,
        kind=_kind(status.st_mode),
        size=status.st_size,
        links=status.st_nlink,
        device=status.st_dev,
        inode=status.st_ino,
        mode=stat.S_IMODE(status.st_mode),
        changed_ns=status.st_ctime_ns,
    )


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.SPECIAL
