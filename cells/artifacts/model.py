"""The words of the contract: roles, readiness, permissions, and the row that binds them.

Rules:
1. The earliest class of a row is what a live role sees; later classes belong to audit, scoring and replay.
2. A row whose only class is post-run gives nothing to a live role; making one that does raises `ContractError`.
3. A condition that no code of ours can check is never granted to a live role by our readers; other roles name it as
   their purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cells.artifacts.conditions import Condition
from cells.artifacts.pattern import PathPattern
from cells.errors import BoundaryViolation, UsageError


class ContractError(UsageError):
    """The contract, or a study's narrowing of it, says something that it may not say."""


class UndeclaredArtifact(BoundaryViolation):
    """A file that no row of the contract names."""


class Role(StrEnum):
    """Who reads."""

    CONTEXT = "context"
    DETECTOR = "detector"
    CONTROLLER = "controller"
    AUDIT = "audit"
    SCORING = "scoring"
    REPLAY = "replay"


LIVE_ROLES = (Role.CONTEXT, Role.DETECTOR, Role.CONTROLLER)
"""Roles that act while a run is active."""


class Readiness(StrEnum):
    """When a file may be believed."""

    RUN_START = "run-start"
    LIVE_PREFIX = "live-prefix"
    EVENT = "event"
    POST_RUN = "post-run"


_ORDER = tuple(Readiness)


class Scope(StrEnum):
    """The place that a pattern is relative to; the same name in two scopes is two artifacts."""

    CELL = "cell"
    SESSION = "session"
    SUBAGENT = "subagent"
    RUN = "run"
    SCORE = "score"
    BRANCH_POINT = "branch-point"
    BRANCH = "branch"
    ATTEMPT = "attempt"
    REPLAY = "replay"
    VERIFICATION = "verification"
    RESCORE = "rescore"
    STUDY = "study"
    STUDIES = "studies"
    HOST = "host"


class Writer(StrEnum):
    """Parts of Assay that write files of an attempt or a study."""

    PLANNER = "planner"
    LAUNCHER = "launcher"
    GATEWAY = "gateway"
    SAMPLER = "sampler"
    GATHERER = "gatherer"
    SEALER = "sealer"
    DETECTOR = "detector"
    CONTROLLER = "controller"
    COLLECTOR = "collector"
    GATE = "gate"
    VERIFIER = "verifier"
    SCORER = "scorer"
    LEAK_SCAN = "leak scan"
    NOISE = "noise summary"
    JOURNAL = "post-run journal"
    PUBLISHER = "publisher"
    REPLAYER = "replayer"
    BRANCHER = "branch runner"
    REPORTER = "reporter"


class Grant(StrEnum):
    """The lattice no < conditional < yes."""

    NO = "no"
    CONDITIONAL = "conditional"
    YES = "yes"

    @property
    def rank(self) -> int:
        return ("no", "conditional", "yes").index(self.value)


@dataclass(frozen=True)
class Permission:
    """What one role may do with one artifact."""

    grant: Grant
    conditions: frozenset[Condition] = frozenset()

    def __post_init__(self) -> None:
        if (self.grant is Grant.CONDITIONAL) != bool(self.conditions):
            raise ContractError(f"a permission is conditional exactly when it names conditions; found {self}")

    def narrows(self, other: Permission) -> bool:
        """Whether this permission gives nothing that `other` does not give."""
        if self.grant is Grant.NO:
            return True
        return self.grant.rank <= other.grant.rank and self.conditions >= other.conditions

    def meet(self, other: Permission) -> Permission:
        """The greatest permission that narrows both."""
        if Grant.NO in (self.grant, other.grant):
            return NO
        conditions = self.conditions | other.conditions
        return Permission(Grant.CONDITIONAL, conditions) if conditions else YES


NO = Permission(Grant.NO)
YES = Permission(Grant.YES)


def when(*conditions: Condition) -> Permission:
    """Permission under all of the conditions."""
    return Permission(Grant.CONDITIONAL, frozenset(conditions))


def may(
    *,
    context: Permission = NO,
    detector: Permission = NO,
    controller: Permission = NO,
    audit: Permission = YES,
    scoring: Permission = NO,
    replay: Permission = NO,
) -> Mapping[Role, Permission]:
    """The permissions of a row: what is not said is `no`, except for audit."""
    return {
        Role.CONTEXT: context,
        Role.DETECTOR: detector,
        Role.CONTROLLER: controller,
        Role.AUDIT: audit,
        Role.SCORING: scoring,
        Role.REPLAY: replay,
    }


@dataclass(frozen=True)
class Row:
    """One line of the contract."""

    pattern: str
    """As printed: a leading `<place>/` names the directory that the scope stands for."""
    scope: Scope
    writer: str
    ready: frozenset[Readiness]
    permissions: Mapping[Role, Permission]
    required: bool = False
    """Whether a unit without it is incomplete."""
    origin: str = "assay"
    """`seed` (the saved-files contract) or `assay`."""
    seed_row: int | None = None
    """Number of the row in the seed's tables, 1 to 49; None for what only its text names, or for our own files."""
    assistant_only: bool = False
    """Belongs to coding sessions; found in a measurement it is a violation."""
    writers: frozenset[Writer] = frozenset()
    """Our parts that may write it; empty for files that we only read."""
    ready_note: str = ""
    note: str = ""
    matcher: PathPattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.ready:
            raise ContractError(f"{self.pattern}: a row needs a class of readiness")
        if set(self.permissions) != set(Role):
            raise ContractError(f"{self.pattern}: a row names every role; found {sorted(self.permissions)}")
        self._refuse_live_readers_of_post_run()
        object.__setattr__(self, "matcher", PathPattern.of(self.pattern))

    def _refuse_live_readers_of_post_run(self) -> None:
        if self.ready != {Readiness.POST_RUN}:
            return
        for role in LIVE_ROLES:
            if self.permissions[role].grant is not Grant.NO:
                raise ContractError(
                    f"{self.pattern}: asked for {self.permissions[role].grant} to {role}; "
                    f"the file is ready post-run only, and {role} acts while the run is active: only `no` is allowed"
                )

    @property
    def classes(self) -> tuple[Readiness, ...]:
        """The readiness classes, earliest first."""
        return tuple(ready for ready in _ORDER if ready in self.ready)

    def readiness_for(self, role: Role) -> Readiness:
        """The class that counts for a role: the earliest for live roles, the latest for the others."""
        return self.classes[0] if role in LIVE_ROLES else self.classes[-1]

    def permission(self, role: Role) -> Permission:
        """What the role may do."""
        return self.permissions[role]

    def readers(self) -> tuple[str, ...]:
        """The roles that may read it, conditional ones marked."""
        marks = {Grant.YES: "", Grant.CONDITIONAL: " (conditional)"}
        return tuple(
            f"{role.value}{marks[self.permissions[role].grant]}"
            for role in Role
            if self.permissions[role].grant is not Grant.NO
        )

    def ready_words(self) -> str:
        """The readiness classes as one phrase."""
        words = ", then ".join(ready.value for ready in self.classes)
        return f"{words} ({self.ready_note})" if self.ready_note else words
