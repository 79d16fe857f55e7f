"""Readers of console text, for compatibility with SWE-bench's own logs only: no verdict of ours ever comes from
here."""

from scoring.console.jest_text import read_jest_text
from scoring.console.pytest_text import read_pytest_text
from scoring.console.swebench_parsers import reader_of
from scoring.console.unittest_text import read_unittest_text

__all__ = ["read_jest_text", "read_pytest_text", "read_unittest_text", "reader_of"]
