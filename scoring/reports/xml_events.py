"""An XML document as a stream of events, without document type, entities and processing instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn
from xml.parsers import expat

from scoring.reports.model import ReportUnreadable

Start = Callable[[str, dict[str, str]], None]
End = Callable[[str], None]
Text = Callable[[str], None]


def parse_xml(content: bytes, start: Start, end: End, text: Text | None = None) -> None:
    """Parse the whole document; ReportUnreadable for half of one and for what no report needs."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    if text is not None:
        parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _refuse("document type")
    parser.EntityDeclHandler = _refuse("entity")
    parser.ProcessingInstructionHandler = _refuse("processing instruction")
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise ReportUnreadable(f"not a whole XML document: {error}") from error


def _refuse(what: str) -> Callable[..., NoReturn]:
    def handler(*_: object) -> NoReturn:
        raise ReportUnreadable(f"a report has no {what}")

    return handler
