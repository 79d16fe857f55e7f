"""The row types of this package by file, for the exported JSON Schemas."""

from __future__ import annotations

from pydantic import BaseModel

from cells.recording.usage import ResponseUsage, SessionUsage
from cells.recording.wire import CloseRow, OpenRow, RequestRow, ResponseRow

SCHEMAS: dict[str, type[BaseModel]] = {
    "wire.open": OpenRow,
    "wire.request": RequestRow,
    "wire.response": ResponseRow,
    "wire.close": CloseRow,
    "usage.response_usage": ResponseUsage,
    "usage.session_usage": SessionUsage,
}
