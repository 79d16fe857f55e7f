"""TOML files written by people: read once, checked against a model, errors that name file, line and key.

Rules: unknown keys are errors; a name given twice is an error; the first problem in file order is told, with what was
expected and found.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cells.errors import InputFileError

Model = TypeVar("Model", bound=BaseModel)
KeyPath = tuple[str | int, ...]
_MAX_BYTES = 4 << 20
_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_NAME = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_\-]+)"""
_KEY = re.compile(rf"^\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_\-]+))\s*(?:\.|$)""")


def load_toml(path: Path, model: type[Model]) -> tuple[Model, bytes]:
    """The checked content of a TOML file and its exact bytes. InputFileError (exit 2) for everything that is
    wrong with it.
    """
    content = read_text_file(path)
    try:
        text = content.decode("utf-8")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InputFileError(str(path), f"expected UTF-8 text; byte {error.start} is not") from error
    except tomllib.TOMLDecodeError as error:
        message, line = _syntax(str(error))
        raise InputFileError(str(path), message, line=line) from error
    try:
        return model.model_validate(document), content
    except ValidationError as error:
        raise _problem(path, text, document, error) from error


def read_text_file(path: Path) -> bytes:
    """The bytes of a file given by the user; InputFileError when there is none or it is absurdly large."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputFileError(str(path), f"larger than {_MAX_BYTES} bytes")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputFileError(str(path), "no such file") from None
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line (1-based) of each table header and key, by path; an array of tables counts its entries from 0."""
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    fence: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if fence is not None:
            fence = None if fence in line else fence
            continue
        header = _HEADER.match(line)
        if header:
            table = _parts(header.group(2))
            if header.group(1) == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_parts(key.group(1))), number)
            fence = _opens_fence(line)
    return lines


def _problem(path: Path, text: str, document: Any, error: ValidationError) -> InputFileError:
    lines = key_lines(text)
    found = [(_line_of(lines, _location(detail)), detail) for detail in error.errors()]
    line, detail = min(found, key=lambda item: item[0] or 0)
    key = ".".join(str(part) for part in _location(detail)) or None
    return InputFileError(str(path), _message(detail, document), line=line, key=key)


def _location(detail: ErrorDetails) -> KeyPath:
    return tuple(part for part in detail["loc"] if part != "[key]")


def _message(detail: ErrorDetails, document: Any) -> str:
    kind, message = detail["type"], detail["msg"]
    if kind == "extra_forbidden":
        return "unknown key (see `docs/study-file.md` and `docs/tasks.md` for the keys there are)"
    if kind == "missing":
        return "this key is required and missing"
    if kind == "value_error":
        return str(detail.get("ctx", {}).get("error", message))
    return f"{message}; found {_shown(detail['input'])}"


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _line_of(lines: dict[KeyPath, int], location: KeyPath) -> int | None:
    for length in range(len(location), 0, -1):
        if location[:length] in lines:
            return lines[location[:length]]
    return None


def _parts(dotted: str) -> KeyPath:
    return tuple(double or single or bare for double, single, bare in _PART.findall(dotted))


def _opens_fence(line: str) -> str | None:
    return next((fence for fence in ('"""', "'''") if line.count(fence) == 1), None)


def _syntax(message: str) -> tuple[str, int | None]:
    match = re.search(r" \(at line (\d+), column \d+\)$", message)
    return (message[: match.start()], int(match.group(1))) if match else (message, None)
