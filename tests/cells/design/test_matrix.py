"""Order and identity of cells: laws that hold for every design."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cells.design.cell import ArmContent, CellLimits, CellSpec, slug
from cells.design.diff import diff_plans
from cells.design.limits import WiderLimit, tightened
from cells.design.matrix import blocks, ordered
from cells.design.plan import Plan, TaskEntry, parse_plan
from cells.errors import EvidenceError

LIMITS = CellLimits("wall", 10.0, 5, None, None, "0.50", 256, 1.0, 64, "memory", 64, 30.0)
TASK, RECIPE = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def spec(task: str, arm: str, sample: int = 1, **settings: object) -> CellSpec:
    content = ArmContent(arm, "command", None, None, dict(settings), control="nop" if arm == "nop" else None)
    return CellSpec("s", task, TASK, RECIPE, content, LIMITS, sample)


def plan(specs: list[CellSpec], **design: object) -> Plan:
    tasks = tuple(TaskEntry(task, "repo", TASK, RECIPE, False) for task in sorted({s.task for s in specs}))
    return Plan("s", 3, 1, None, dict(design), tasks, ordered(specs, 3), "0")


names = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5, unique=True)


@given(names, names, st.integers(1, 3), st.integers(0, 2**40))
def test_arms_of_a_task_and_sample_stand_next_to_each_other(
    tasks: list[str], arms: list[str], samples: int, seed: int
) -> None:
    cells = ordered([spec(t, a, n) for t in tasks for a in arms for n in range(1, samples + 1)], seed)
    assert [len(block) for block in blocks(cells)] == [len(arms)] * (len(tasks) * samples)
    assert [cell.order for cell in cells] == list(range(len(cells)))


@given(names, names, st.integers(0, 2**40))
def test_adding_a_task_moves_nothing_else_relative_to_each_other(tasks: list[str], arms: list[str], seed: int) -> None:
    few = ordered([spec(t, a) for t in tasks for a in arms], seed)
    more = ordered([spec(t, a) for t in [*tasks, "added"] for a in arms], seed)
    assert [cell.spec for cell in more if cell.spec.task != "added"] == [cell.spec for cell in few]


def test_controls_come_first_and_the_seed_decides_the_order() -> None:
    specs = [spec(t, a) for t in "abcdef" for a in ("x", "y", "nop")]
    cells = ordered(specs, 1)
    assert all(cell.is_control for cell in cells[:6]) and not any(cell.is_control for cell in cells[6:])
    assert ordered(specs, 1) == cells
    assert ordered(specs, 2) != cells


def test_both_orders_of_a_pair_occur_so_that_drift_hits_both_arms() -> None:
    cells = ordered([spec(f"t{n}", a) for n in range(40) for a in ("x", "y")], 5)
    first = sum(block[0].spec.arm.name == "x" for block in blocks(cells))
    assert 5 < first < 35


def test_identity_changes_with_every_field_and_not_with_the_study() -> None:
    base = spec("a", "x")
    assert replace(base, study="other").cell_id == base.cell_id
    changed = [
        replace(base, task="b"),
        replace(base, task_sha256=RECIPE),
        replace(base, recipe_sha256=TASK),
        replace(base, sample=2),
        replace(base, limits=replace(LIMITS, turns=6)),
        replace(base, arm=replace(base.arm, name="y")),
        replace(base, arm=replace(base.arm, input_limit=10)),
        replace(base, arm=replace(base.arm, settings={"k": 1})),
        replace(base, arm=replace(base.arm, model={"name": "m"})),
    ]
    assert len({s.cell_id for s in [base, *changed]}) == len(changed) + 1


def test_a_plan_survives_its_own_bytes_and_a_change_by_hand_is_refused() -> None:
    made = plan([spec("a", "x"), spec("a", "y")], samples=1)
    assert parse_plan(made.to_bytes(), "plan.lock.json") == made
    content = made.to_bytes()
    for altered in (
        content.replace(b'"seed":3', b'"seed":4') + b" ",
        content.replace(b'"sample":1', b'"sample":2', 1),
        b"{}",
        b"[",
    ):
        try:
            parse_plan(altered, "plan.lock.json")
        except EvidenceError as error:
            assert "plan.lock.json" in str(error)
        else:
            raise AssertionError("accepted")


def test_changing_one_arm_touches_its_cells_only_and_says_why() -> None:
    old = plan([spec("a", "x"), spec("a", "y"), spec("b", "x"), spec("b", "y")])
    new = plan([spec("a", "x"), spec("a", "y", k=1), spec("b", "x"), spec("b", "y", k=1), spec("c", "x")])
    diff = diff_plans(old, new)
    assert diff.kept == 2
    assert sorted((c.kind, c.task, c.arm) for c in diff.changes) == [
        ("new", "c", "x"),
        ("rerun", "a", "y"),
        ("rerun", "b", "y"),
    ]
    assert next(c for c in diff.changes if c.kind == "rerun").why == ("arm.settings.k: None -> 1",)


def test_limits_only_tighten() -> None:
    assert tightened(LIMITS, {"turns": 3, "cost": "0.10", "requests": 9}) == replace(
        LIMITS, turns=3, cost="0.10", requests=9
    )
    for wider in ({"turns": 6}, {"cost": "0.51"}, {"wall_s": 11}):
        try:
            tightened(LIMITS, wider)
        except WiderLimit as error:
            assert error.key in wider and "only tighten" in str(error)
        else:
            raise AssertionError("accepted")


@given(st.text(max_size=80), st.text(max_size=80))
def test_names_of_directories_are_safe_and_differ_when_the_identifiers_do(one: str, two: str) -> None:
    for text in (one, two):
        made = slug(text)
        assert made and len(made) <= 80 and made[0] not in "-." and "/" not in made and ".." not in (made,)
    assert (slug(one) == slug(two)) == (one == two)
