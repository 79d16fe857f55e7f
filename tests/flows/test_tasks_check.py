"""Controls of tasks: by the real verifier on a real engine; what makes a task unfit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cells.outcome import Verdict
from cells.tasks import FrozenTask, freeze, load_task
from flows.cli.tasks import command
from flows.task_check import check_tasks, unsteady, why_unfit
from launchers.engine import Engine
from scoring.judge import Judgement, RunFacts
from scoring.verification import Verification

TAP = """\
schema_version = 1
id = "{id}"
repository = "checks"
[image]
base = "python"
[verify]
command = ["sh", "-c", "sh tests/run.sh > {{report}}"]
runner = "tap"
f2p = ["fixed"]
p2p = {p2p}
"""
GOLD = "diff --git a/state b/state\n--- a/state\n+++ b/state\n@@ -1 +1 @@\n-broken\n+mended\n"
WRONG_GOLD = GOLD.replace("+mended", "+mangled")
RUN = """\
echo 1..2
if [ "$(cat state)" = mended ]; then echo "ok 1 - fixed"; else echo "not ok 1 - fixed"; fi
echo "ok 2 - steady"
"""
TOSSES = 24  # that all of them fall alike in two runs has a chance of 2 to the power of -24
TOSS = """\
echo 1..{count}
if [ "$(cat state)" = mended ]; then echo "ok 1 - fixed"; else echo "not ok 1 - fixed"; fi
echo "ok 2 - steady"
python3 - <<'END'
import random
for number in range(3, {count} + 1):
    print(random.choice(["ok", "not ok"]), number, "-", f"toss {{number}}")
END
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    connected = Engine.connect()
    yield connected
    connected.close()


def write_task(
    root: Path,
    name: str,
    *,
    gold: str | None = GOLD,
    run: str = RUN,
    state: str = "broken\n",
    p2p: tuple[str, ...] = ("steady",),
) -> Path:
    """A task whose one file says whether it is mended, tested by a shell script that speaks TAP."""
    directory = root / name
    files = {
        "task.toml": TAP.format(id=name, p2p=json.dumps(p2p)),
        "prompt.md": "mend it\n",
        "repo/state": state,
        "sealed/tests/tests/run.sh": run,
        **({"sealed/gold.patch": gold} if gold is not None else {}),
    }
    for path, content in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(content)
    return directory


def frozen(directory: Path) -> FrozenTask:
    """The directory, frozen beside itself."""
    return freeze(load_task(directory), directory.with_name(f"{directory.name}.frozen"))


@pytest.mark.engine
def test_controls_of_right_and_wrong_tasks(engine: Engine, tmp_path: Path) -> None:
    tasks = [
        frozen(write_task(tmp_path, "check-right")),
        frozen(write_task(tmp_path, "check-wrong-gold", gold=WRONG_GOLD)),
        frozen(write_task(tmp_path, "check-no-gold", gold=None)),
        frozen(write_task(tmp_path, "check-solved", state="mended\n", gold=GOLD.replace("-broken", "-mended"))),
        frozen(write_task(tmp_path, "check-gold-does-not-apply", gold=GOLD.replace("-broken", "-something"))),
        frozen(write_task(tmp_path, "check-no-tool", run="exit 127\n")),
    ]
    seen: list[str] = []
    right, wrong, none, solved, loose, tool = check_tasks(tasks, engine, 1, lambda check: seen.append(check.id))
    assert (right.ok, right.gold, right.empty, right.flaky) == (True, Verdict.RESOLVED, Verdict.UNRESOLVED, ())
    assert right.gold_s is not None and right.task_sha256 == tasks[0].sha256
    assert (wrong.ok, wrong.gold) == (False, Verdict.UNRESOLVED)
    assert "fixed failed" in wrong.reason
    assert (none.ok, none.gold) == (False, Verdict.INVALID)
    assert "gold.patch" in none.reason
    assert (solved.ok, solved.gold) == (False, Verdict.INVALID)
    assert (loose.ok, loose.gold) == (False, Verdict.INVALID)
    assert "patch_unappliable" in loose.reason
    assert (tool.ok, tool.gold, tool.empty) == (False, Verdict.INVALID, Verdict.INVALID)
    assert seen == [task.id for task in tasks]


@pytest.mark.engine
def test_flaky_tests_are_found_and_named(engine: Engine, tmp_path: Path) -> None:
    names = tuple(f"toss {number}" for number in range(3, TOSSES + 3))
    task = frozen(write_task(tmp_path, "check-flaky", run=TOSS.format(count=TOSSES + 2), p2p=("steady", *names)))
    (check,) = check_tasks([task], engine, 2)
    assert not check.ok
    assert check.flaky and set(check.flaky) <= set(names)


@pytest.mark.engine
def test_the_command_prints_one_document_and_says_by_its_exit_whether_all_are_fit(tmp_path: Path) -> None:
    write_task(tmp_path, "check-right")
    write_task(tmp_path, "check-wrong-gold", gold=WRONG_GOLD)
    result = CliRunner().invoke(command, ["check", str(tmp_path), "--json"])
    rows = {row["id"]: row for row in json.loads(result.stdout)["tasks"]}
    assert result.exit_code == 1
    assert {"id", "gold", "empty", "ok", "reason", "flaky"} <= set(rows["check-right"])
    assert (rows["check-right"]["ok"], rows["check-wrong-gold"]["ok"]) == (True, False)


def verification(verdict: Verdict, tests: dict[str, str], seconds: float = 1.0) -> Verification:
    """What a verification found, by its tests."""
    judgement = Judgement(verdict, "all_passed", tests)  # type: ignore[arg-type]
    facts = RunFacts(0, False, seconds, "read", 0)
    return Verification(verdict, "all_passed", None, judgement, facts, facts, (), "", seconds, None)


RESOLVED = verification(Verdict.RESOLVED, {"a": "passed", "b": "passed"})
UNRESOLVED = verification(Verdict.UNRESOLVED, {"a": "failed", "b": "passed"})


def test_a_test_with_two_results_on_one_tree_is_unsteady() -> None:
    other = verification(Verdict.UNRESOLVED, {"a": "failed", "b": "skipped"})
    assert unsteady([UNRESOLVED, other]) == {"b"}
    assert unsteady([RESOLVED, RESOLVED]) == set()


def test_a_fit_task_has_no_reason() -> None:
    assert why_unfit([RESOLVED], [UNRESOLVED], (), 3.0) == ""


@pytest.mark.parametrize(
    ("gold", "empty", "flaky", "timeout_s", "expected"),
    [
        (UNRESOLVED, UNRESOLVED, (), 60.0, "gold patch: unresolved"),
        (RESOLVED, RESOLVED, (), 60.0, "empty patch: resolved"),
        (RESOLVED, verification(Verdict.INVALID, {}), (), 60.0, "empty patch: invalid"),
        (RESOLVED, UNRESOLVED, ("b",), 60.0, "flaky: b"),
        (verification(Verdict.RESOLVED, {}, 21.0), UNRESOLVED, (), 60.0, "must be 3 times"),
    ],
)
def test_what_makes_a_task_unfit(
    gold: Verification, empty: Verification, flaky: tuple[str, ...], timeout_s: float, expected: str
) -> None:
    assert expected in why_unfit([gold], [empty], flaky, timeout_s)
