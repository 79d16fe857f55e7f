"""What a changed study file means: which cells stay, which are new, which are no longer asked for, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cells.design.cell import CellSpec
from cells.design.plan import Plan

CellKey = tuple[str, str, int]


@dataclass(frozen=True)
class CellChange:
    """One cell that differs: `kind` is `rerun`, `new` or `dropped`; `why` names the changed keys with old and new
    value.
    """

    kind: str
    task: str
    arm: str
    sample: int
    why: tuple[str, ...]


@dataclass(frozen=True)
class PlanDiff:
    """The difference of two plans; `design` names changed keys that touch no cell (analysis, budget, noise)."""

    kept: int
    changes: tuple[CellChange, ...]
    design: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.design


def diff_plans(old: Plan, new: Plan) -> PlanDiff:
    """Compare by (task, arm, sample); a cell whose id is the same is kept whatever its place in the order."""
    before = {_key(cell.spec): cell.spec for cell in old.cells}
    after = {_key(cell.spec): cell.spec for cell in new.cells}
    changes = [_changed(before[key], spec) if key in before else _appeared(spec) for key, spec in after.items()]
    dropped = [CellChange("dropped", *key, ("no longer in the study",)) for key in before if key not in after]
    real = [change for change in changes if change is not None]
    return PlanDiff(len(after) - len(real), tuple(real + dropped), tuple(differences(old.design, new.design)))


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """`key: old -> new` for every leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield f"{path}: {old!r} -> {new!r}"


def _changed(old: CellSpec, new: CellSpec) -> CellChange | None:
    if old.cell_id == new.cell_id:
        return None
    why = tuple(differences(asdict(old), asdict(new)))
    return CellChange("rerun", *_key(new), why)


def _appeared(spec: CellSpec) -> CellChange:
    return CellChange("new", *_key(spec), ("not in the frozen plan",))


def _key(spec: CellSpec) -> CellKey:
    return (spec.task, spec.arm.name, spec.sample)
