"""Files with one thing changed, and the refusal that must name file and field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cells.errors import InputFileError

FILES = Path(__file__).parent / "files"
Change = Callable[[Any], Any]


def changed(source: Path, destination: Path, change: Change) -> Path:
    """A copy of a JSON file with something changed in place."""
    document = json.loads(source.read_bytes())
    change(document)
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.write_text(json.dumps(document))
    return destination


def refused(read: Callable[[Path], Any], path: Path, field: str) -> str:
    """The message of the refusal, which names the file and the field."""
    with pytest.raises(InputFileError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert field in str(caught.value)
    return str(caught.value)


def put(*keys: Any, value: Any) -> Change:
    """A change: the value at a place of the document."""

    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change
