"""Which script a scripted model plays in a cell: `<task>[.<arm>][.sNN].jsonl`, the most specific one that exists."""

from __future__ import annotations

from pathlib import Path


def script_for(directory: Path, task: str, arm: str, sample: int) -> Path | None:
    """The script of a cell; a file instead of a directory serves every cell. None when there is none."""
    if directory.is_file():
        return directory
    names = (f"{task}.{arm}.s{sample:02d}", f"{task}.s{sample:02d}", f"{task}.{arm}", task)
    return next((path for name in names if (path := directory / f"{name}.jsonl").is_file()), None)
