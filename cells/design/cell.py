"""A cell: task x arm x sample, with an identity that needs no engine.

`cell_id` is the digest of the canonical JSON of `CellSpec` (25-formats): task digest, arm name and content, limits,
sample, recipe digests.
Kernel, image rebuild and host do not change it; those are the runtime fingerprint of an attempt.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict, dataclass, field
from typing import Any

from cells.evidence.digest import digest_bytes, digest_json, short

SPEC_VERSION = 1


@dataclass(frozen=True)
class ArmContent:
    """What an arm fixes, with the model's section resolved into it (secret-free: a key is named, never held).

    `control` is "oracle" or "nop" for control arms, None for the arms of the study; controls never enter a comparison.
    `model` is the canonical content of the model section plus `name`; for a scripted model it holds the digest of the
    cell's script.
    """

    name: str
    harness: str
    model: dict[str, Any] | None
    input_limit: int | None
    settings: dict[str, Any]
    detectors: dict[str, Any] = field(default_factory=dict)
    control: str | None = None


@dataclass(frozen=True)
class CellLimits:
    """Limits of one cell after study, arm and task were tightened into one; None is no limit. Seconds, MiB,
    tokens, decimal string.
    """

    clock: str
    wall_s: float
    turns: int | None
    requests: int | None
    total_tokens: int | None
    cost: str | None
    memory_mb: int
    cpus: float
    disk_mb: int
    disk_backing: str
    pids: int
    verify_s: float


@dataclass(frozen=True)
class CellSpec:
    """Everything that decides what a cell is."""

    study: str
    task: str
    task_sha256: str
    recipe_sha256: str
    arm: ArmContent
    limits: CellLimits
    sample: int

    def as_json(self) -> dict[str, Any]:
        """The content of start/spec.json, without the study's name: the same cell in another study is the same cell."""
        content = asdict(self)
        content.pop("study")
        return {"v": SPEC_VERSION, **content}

    @property
    def cell_id(self) -> str:
        """`sha256:<hex>` over the canonical spec."""
        return digest_json(self.as_json())

    @property
    def directory(self) -> str:
        """`<task>--<arm>--s01--<12 hex>`: a name for people; identity is never parsed from it."""
        return f"{slug(self.task)}--{slug(self.arm.name)}--s{self.sample:02d}--{short(self.cell_id)}"


def slug(text: str) -> str:
    """A safe path segment for any identifier; what has no safe form gets `u-<8 hex>` (the original stands in
    spec.json).
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^a-z0-9._]+", "-", plain.lower()).strip("-.")
    plain = re.sub(r"-{2,}", "-", plain)[:64].strip("-.")
    if plain and plain == text:
        return plain
    mark = short(digest_bytes(text.encode("utf-8", "surrogateescape")), 8)
    return f"{plain}-{mark}" if plain else f"u-{mark}"
