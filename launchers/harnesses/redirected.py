"""A command whose stdout is a file: for programs that print their record instead of writing it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def to_file(path: str, words: Sequence[str]) -> tuple[str, ...]:
    """argv that becomes `words`, with stdout in the file at `path`; the shell is gone before the program begins."""
    return ("/bin/sh", "-c", f'exec "$0" "$@" > {shlex.quote(path)}', *words)
