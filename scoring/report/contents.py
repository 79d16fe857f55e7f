"""What a report is made of, besides the analysis: rows of cells and the facts of plan, ledger and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Design:
    """What was planned."""

    study: str
    plan_sha256: str
    revision: int
    seed: int
    arms: tuple[str, ...]
    """In the order of the study file, controls not among them."""
    controls: tuple[str, ...]
    tasks: int
    repositories: int
    samples: int
    same_arms: tuple[tuple[str, str], ...]
    """Pairs of arms with one content (A/A): what differs between them is noise."""
    without_control: tuple[str, ...]
    """Tasks that were admitted although their control failed or is missing."""


@dataclass(frozen=True)
class Revision:
    """A later revision of the plan, and what was known when it was made."""

    number: int
    accepted_before: int
    """Accepted attempts of arms (not of controls) at that moment."""
    verdicts_seen: bool
    changed_cells: int
    design: tuple[str, ...]
    """Lines of what changed in the design."""

    @property
    def after_verdict(self) -> bool:
        """Whether a verdict existed, or was seen, before it."""
        return self.verdicts_seen or self.accepted_before > 0


@dataclass(frozen=True)
class Runtime:
    """Attempts that ran under one host fingerprint, and what that was."""

    digest: str
    cells: int
    description: Mapping[str, str]


@dataclass(frozen=True)
class Reliability:
    """What happened to attempts: counts of the whole study."""

    planned: int
    accepted: int
    attempts: int
    lost: Mapping[str, int]
    """Reason -> attempts lost to the infrastructure."""
    retried_cells: int
    controls: Mapping[str, int]
    """total, done, as_expected"""
    withheld: Mapping[str, str]
    dropped: Mapping[str, str]
    superseded: int
    unblinded: tuple[str, ...]
    """Each look at verdicts while cells were open: by which command, after how many accepted attempts."""
    cost: str | None
    cost_unknown: int


@dataclass(frozen=True)
class Provenance:
    """Where all of it comes from."""

    facts: tuple[tuple[str, str], ...]
    """Name and value: ledger head, study id, versions, licence."""
    revisions: tuple[Revision, ...]
    runtimes: tuple[Runtime, ...]
    images: Mapping[str, tuple[str, ...]]
    """Image digest -> tasks that ran in it."""
    tasks: Mapping[str, str]
    """Task -> digest of its frozen directory."""


@dataclass(frozen=True)
class StudyContents:
    """Everything but the analysis."""

    design: Design
    rows: tuple[Row, ...]
    open_cells: tuple[Row, ...]
    phases: Mapping[str, Mapping[str, float]]
    """Arm -> phase -> mean seconds of an accepted attempt."""
    reliability: Reliability
    provenance: Provenance
    blind: bool

    @property
    def compared(self) -> tuple[Row, ...]:
        """Rows of the arms, missing cells in their places; controls are not among them."""
        return tuple(row for row in (*self.rows, *self.open_cells) if row["arm"] in self.design.arms)

    def rows_of(self, arm: str) -> tuple[Row, ...]:
        """Rows of one arm with a result."""
        return tuple(row for row in self.rows if row["arm"] == arm)
