"""Whether a command line changes files, as far as it can be told from its text; linear in its length.

Rules:
1. A redirection into a file writes, into a descriptor or /dev/null it does not.
2. Otherwise the first word of each simple command decides: programs that write, `sed` and `perl` with -i, `git` with a
   subcommand that changes the tree; and Python that opens for writing.
"""

from __future__ import annotations

import re
from functools import lru_cache

_REDIRECTION = re.compile(r"""(?<![-=<>&\d])>{1,2}\s{0,8}(?!&|/dev/null)[\w./~$"'\\]""")
_PYTHON = re.compile(r"""write_text|write_bytes|\bopen\([^)\n]{0,200}["'\\][wax]""")
_SEPARATOR = re.compile(r"[|;&\n(){}`]|\\n|\$\(")
_WORD = re.compile(r"[\w./+=~-]+")
_PREFIXES = frozenset(_WORD.findall("command cmd script input sh bash -c -lc sudo time env exec xargs then do else"))
_PROGRAMS = frozenset(_WORD.findall("tee patch cp mv rm touch mkdir ln rmdir install truncate dd rsync unzip ed"))
_IN_PLACE = frozenset(("sed", "perl"))
_GIT = frozenset(
    _WORD.findall("apply am checkout restore revert cherry-pick merge rebase mv rm stash reset pull switch")
)


@lru_cache(maxsize=8192)
def writes_files(text: str) -> bool:
    """Whether a command, or the arguments of a call that hold one, changes files. Answers are kept: old calls are asked
    about at every turn."""
    if _REDIRECTION.search(text) or _PYTHON.search(text):
        return True
    return any(_simple_command_writes(part) for part in _SEPARATOR.split(text))


def _simple_command_writes(part: str) -> bool:
    words = [word for word in _WORD.findall(part) if "=" not in word]
    while words and words[0] in _PREFIXES:
        words.pop(0)
    if not words:
        return False
    program, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if program in _IN_PLACE:
        return any(word.startswith("-") and not word.startswith("--") and "i" in word for word in rest)
    if program == "git":
        while len(rest) > 1 and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in ("-C", "-c") else rest[1:]
        return rest[:1] != [] and rest[0] in _GIT
    return program in _PROGRAMS
