"""The answer to one question: two arms compared on one outcome, every number or the reason why there is none.

Rules (20-interface, "JSON that checks rely on"):
1. The four counts and McNemar's p are of a yes-or-no outcome with one sample a task; otherwise they are None.
2. The p value that enters Holm is McNemar's where it exists, else the permutation test's; only planned comparisons have
   a `p_holm`.
3. Means, difference, tests and interval are of the paired tasks; bounds are of all tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scoring.statistics.estimate import Interval, NotEstimable, PValue
from scoring.statistics.outcomes import OutcomeKind
from scoring.statistics.pairing import TaskPairs


@dataclass(frozen=True)
class Question:
    """What is compared: two arms in a group of the table, on an outcome of a kind; and whether that was planned."""

    group: Mapping[str, str]
    control: str
    treatment: str
    outcome: str
    kind: OutcomeKind
    planned: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """What names this question, for its random numbers."""
        keys = (f"{key}={value}" for key, value in sorted(self.group.items()))
        return (*keys, self.control, self.treatment, self.outcome)


@dataclass(frozen=True)
class Discordance:
    """Paired yes-or-no outcomes of one sample a task, by the names of the tasks."""

    both: tuple[str, ...]
    control_only: tuple[str, ...]
    treatment_only: tuple[str, ...]
    neither: tuple[str, ...]


@dataclass(frozen=True)
class PairedTests:
    """Up, down and tied pairs, and the tests on them. `mcnemar` is None where it does not apply (rule 1)."""

    up: int
    down: int
    tie: int
    sign: PValue
    permutation: PValue
    permutation_by_cluster: PValue
    mcnemar: PValue | None

    @property
    def primary(self) -> PValue:
        """The p value of this comparison (rule 2)."""
        return self.mcnemar or self.permutation


@dataclass(frozen=True)
class PairedMeans:
    """Means over the paired tasks and their difference, treatment minus control, with its interval."""

    control: float
    treatment: float
    difference: float
    interval: Interval | NotEstimable


@dataclass(frozen=True)
class Comparison:
    """The answer to one question. What could not be estimated is None or `NotEstimable`, and `notes` says why."""

    question: Question
    pairs: TaskPairs
    clusters: int
    discordance: Discordance | None
    tests: PairedTests | NotEstimable
    means: PairedMeans | NotEstimable
    bounds: tuple[float, float] | None
    difference_without_contaminated: float | None
    notes: tuple[str, ...]
    p_holm: float | None = None

    @property
    def p(self) -> float | None:
        """The p value that enters Holm."""
        return None if isinstance(self.tests, NotEstimable) else self.tests.primary.p

    @property
    def interval(self) -> Interval | None:
        """The interval of the difference, where there is one."""
        found = None if isinstance(self.means, NotEstimable) else self.means.interval
        return found if isinstance(found, Interval) else None

    def with_holm(self, p_holm: float | None) -> Comparison:
        """The same with its adjusted p value."""
        return replace(self, p_holm=p_holm)
