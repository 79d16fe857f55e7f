"""What can be known of a pytest command line without running it: where pytest stands, which tests it chooses, which
paths it names."""

from __future__ import annotations

from collections.abc import Sequence

_TAKES_VALUE = {
    "-c", "-k", "-m", "-o", "-p", "-W", "-n", "-r", "--rootdir", "--confcutdir", "--basetemp", "--junitxml",
    "--deselect", "--ignore", "--maxfail", "--timeout", "--cov",
}  # fmt: skip
_CHOOSES = ("-k", "-m", "--deselect", "--lf", "--ff", "--last-failed")


def arguments_of(command: Sequence[str]) -> int | None:
    """Where the arguments of pytest begin; None when the command hides it (in a shell line, say)."""
    for position, word in enumerate(command):
        if word in ("pytest", "py.test") or word.endswith(("/pytest", "/py.test")):
            return position + 1
    return None


def chooses_tests(command: Sequence[str]) -> bool:
    """Whether the command may leave out a new test that stands beside those it runs."""
    start = arguments_of(command)
    if start is None:
        return True
    return stops_early(command) or any("::" in word or word.startswith(_CHOOSES) for word in command[start:])


def stops_early(command: Sequence[str]) -> bool:
    """Whether the first failure, a canary's say, may end the run before the other tests."""
    words = command[arguments_of(command) or 0 :]
    return any(word.startswith(("--exitfirst", "--maxfail")) or _is_short(word, "x") for word in words)


def _is_short(word: str, letter: str) -> bool:
    """Whether a group of one-letter options (`-qx`) holds a letter."""
    return word[:1] == "-" and word[1:2] != "-" and word[1:].isalpha() and letter in word and word[1] not in "ckmopWnr"


def without_paths(command: Sequence[str], known: set[str]) -> list[str]:
    """The command without the arguments that are known paths (or tests in them), values of options apart."""
    start = arguments_of(command) or len(command)
    kept = list(command[:start])
    for before, word in zip(command[start - 1 :], command[start:], strict=False):
        if before in _TAKES_VALUE or word.split("::")[0].rstrip("/") not in known:
            kept.append(word)
    return kept
