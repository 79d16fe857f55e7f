"""What an audit says about one attempt: facts that were checked, and violations, each with its kind.

Kinds: `start_changed`, `live_changed`, `seal_broken`, `post_before_seal`, `post_not_chained`, `undeclared`,
`assistant_only`, `not_a_file`, `trace_differs`, `state_differs`, `record_broken`, `prefix_differs`, `later_row`,
`decision_differs`, `field_not_named`, `action_differs`, `note_without_decision`, `not_enforced`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Violation:
    """Something that breaks the boundary or the evidence of it."""

    kind: str
    path: str
    detail: str


@dataclass(frozen=True)
class AttemptAudit:
    """The audit of one attempt. `path` is relative to the study."""

    path: str
    boundary: str | None
    """What held live readers, None when the attempt has no seal."""
    decisions: int
    recomputed: int
    """Decisions that were made again from their prefix, with the detector's own code."""
    actions: Mapping[str, int] = field(default_factory=dict)
    sealed: bool = True
    post_files: int = 0
    violations: tuple[Violation, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.violations

    def line(self) -> str:
        """One line for people."""
        if not self.ok:
            kinds = ", ".join(sorted({one.kind for one in self.violations}))
            return f"VIOLATION  {self.path}  {len(self.violations)}: {kinds}"
        if not self.sealed:
            return f"ok         {self.path}  lost before its seal; nothing exists after it"
        acted = ", ".join(f"{count} {kind}" for kind, count in sorted(self.actions.items())) or "no action"
        live = (
            f"{self.decisions} decisions ({self.recomputed} made again; {acted})"
            if self.decisions
            else "no live reader"
        )
        return f"ok         {self.path}  boundary {self.boundary}; {live}; post {self.post_files} files after the seal"
