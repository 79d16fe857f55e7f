"""The difference of two sets of files as a git patch: made from bytes in a repository without a work tree.

Nothing of the files is interpreted: no attribute, filter, rename or configuration takes part (30-evidence C3).
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cells.errors import EnvironmentFault
from cells.tasks.base_state import BaseEntry
from cells.tasks.release_pair import Files

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DIFF = ("--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "-r")


def difference(old: Files, new: Files) -> bytes:
    """`old` -> `new` as a patch that `git apply` takes; empty when nothing differs."""
    changed = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
    with tempfile.TemporaryDirectory(prefix="assay-patch-") as scratch:
        git = _Git(Path(scratch))
        git.run("init", "--quiet", "--bare", "--template=", ".")
        (Path(scratch) / "info").mkdir(exist_ok=True)
        (Path(scratch) / "info" / "attributes").write_bytes(b"* -filter -text -ident !eol !diff !merge\n")
        before = git.tree(old[path] for path in changed if path in old)
        after = git.tree(new[path] for path in changed if path in new)
        return git.run("diff-tree", *_DIFF, before, after)


class _Git:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def tree(self, entries: Iterable[BaseEntry]) -> str:
        """Id of the tree of these entries, written."""
        rows = []
        for entry in entries:
            blob = self.run("hash-object", "-w", "--no-filters", "--stdin", stdin=entry.content).strip()
            rows.append(b"%o %s\t%s\0" % (entry.mode, blob, entry.path))
        if not rows:
            return self.run("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"").decode().strip() or _EMPTY_TREE
        self.run("read-tree", "--empty")
        self.run("update-index", "-z", "--index-info", stdin=b"".join(rows))
        return self.run("write-tree").decode().strip()

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """stdout of one command. EnvironmentFault when git is missing or fails."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
        }
        try:
            done = subprocess.run(
                ("git", *arguments), input=stdin, capture_output=True, cwd=self._directory, env=environment
            )
        except FileNotFoundError as error:
            raise EnvironmentFault("this command needs git; install it (Debian: apt-get install git)") from error
        if done.returncode != 0:
            raise EnvironmentFault(f"git {arguments[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout
