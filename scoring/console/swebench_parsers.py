"""The parser that an installed `swebench` package has for a repository; our own readers where there is none."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from scoring.console.pytest_text import read_pytest_text
from scoring.console.unittest_text import read_unittest_text

Reader = Callable[[bytes], dict[str, str]]
_OWN: Mapping[str, Reader] = {"django/django": read_unittest_text}
_WORDS = {"PASSED": "passed", "FAILED": "failed", "ERROR": "error", "SKIPPED": "skipped", "XFAIL": "xfailed"}


def reader_of(repository: str) -> Reader:
    """How the console text of a SWE-bench repository (`owner/name`) is read."""
    parser = _installed(repository)
    if parser is None:
        return _OWN.get(repository, read_pytest_text)
    return lambda log: _results(parser, log)


def _installed(repository: str) -> Callable[..., Mapping[str, str]] | None:
    try:
        module = importlib.import_module("swebench.harness.log_parsers")
    except ImportError:
        return None
    parsers: Mapping[str, Any] = getattr(module, "MAP_REPO_TO_PARSER", {})
    return parsers.get(repository)


def _results(parser: Callable[..., Mapping[str, str]], log: bytes) -> dict[str, str]:
    text = log.decode("utf-8", "backslashreplace")
    takes_spec = len(inspect.signature(parser).parameters) > 1
    found = parser(text, None) if takes_spec else parser(text)
    return {str(test): _WORDS.get(str(word), "error") for test, word in found.items()}
