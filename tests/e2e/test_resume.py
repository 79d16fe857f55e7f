"""R01 to R04: a run that is killed, stopped or lost at any moment goes on by the same command; nothing counts twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(600)]

FIX = "sed -i 's/a - b/a + b/' calc.py"
SLOW_FIX = f"sleep 1; {FIX}"
CONTROLS = "[controls]\noracle = true\nnop = true\n"
EXPECTED = {"resolved": 3, "unresolved": 3, "invalid": 0}


def test_kill_9_at_any_moment_keeps_what_is_finished_and_ends_in_the_same_table(assay: Any, workshop: Any) -> None:
    """R01. Naive: a cache says what is done; a cell is run twice, or lost between its end and its record."""
    workshop.task("add")
    study = workshop.study("kill-any", {"x": SLOW_FIX, "y": "sleep 1"}, samples=2, more=CONTROLS)
    draw = random.Random(1)
    kept: set[str] = set()
    for _ in range(3):
        process = assay.start("run", study, "--workers", "2")
        await_running(assay, "kill-any", process)
        time.sleep(draw.uniform(0.2, 4.0))  # the moment is the subject of the test, not a wait for something
        kill(process)
        if (assay.studies / "kill-any").exists():
            now = set(assay.ledger("kill-any").accepted.values())
            assert kept <= now, "a finished cell was given up"
            kept = now
    document = assay.json("run", study, "--workers", "2")
    history = assay.ledger("kill-any")
    assert document["cells"] == {"total": 6, "accepted": 6, "pending": 0, "running": 0}
    assert {key: document["verdicts"][key] for key in EXPECTED} == EXPECTED
    assert kept <= set(history.accepted.values()), "a finished cell was run again"
    assert len(set(history.accepted.values())) == len(history.accepted) == 6
    assert assay.containers("kill-any") == []
    assert assay.run("verify", assay.studies / "kill-any")[0] == 0


def test_a_sealed_and_collected_attempt_goes_on_and_the_agent_is_not_run_again(assay: Any, workshop: Any) -> None:
    """R01, between a cell's end and its record. Naive: the agent is paid twice."""
    workshop.task("add")
    study = workshop.study("kill-late", {"x": FIX})
    process = assay.start("run", study, "--workers", "1")
    stage = assay.studies / "kill-late" / ".stage"
    await_(lambda: any(stage.glob("cells/*/attempts/a001/post/collect.json")) or process.poll() is not None)
    kill(process)
    assert assay.ledger("kill-late").accepted == {}
    document = assay.json("run", study)
    history = assay.ledger("kill-late")
    assert document["verdicts"]["resolved"] == 1 and document["infra_lost"] == 0
    assert [path.rpartition("/")[2] for path in history.accepted.values()] == ["a001"]
    assert list(history.started) == list(history.accepted.values()), "another attempt was started"


def test_killed_before_the_seal_the_attempt_is_lost_and_its_cell_is_tried_again(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("kill-early", {"x": f"sleep 3; {FIX}"})
    process = assay.start("run", study)
    stage = assay.studies / "kill-early" / ".stage"
    await_(lambda: any(stage.glob("cells/*/attempts/a001/start/SEAL.json")) or process.poll() is not None)
    kill(process)
    document = assay.json("run", study)
    assert (document["verdicts"]["resolved"], document["infra_lost"]) == (1, 1)
    assert [path.rpartition("/")[2] for path in assay.ledger("kill-early").accepted.values()] == ["a002"]


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT], [signal.SIGKILL]])
def test_after_a_signal_no_container_is_left_once_the_next_command_ran(
    assay: Any, workshop: Any, signals: list[signal.Signals]
) -> None:
    """R04."""
    name = f"signal-{signals[0].name.lower()}"
    workshop.task("add")
    study = workshop.study(name, {"x": "sleep 50", "y": "sleep 50"})
    process = assay.start("run", study, "--workers", "2")
    await_(lambda: len(assay.containers(name)) >= 4 or process.poll() is not None)
    for number in signals:
        os.kill(process.pid, number)
    code = process.wait(timeout=60)
    assert code == (-signal.SIGKILL if signals == [signal.SIGKILL] else 130)
    if signals != [signal.SIGKILL]:
        assert assay.containers(name) == [], "an orderly stop cleans up after itself"
    assert assay.run("reap")[0] == 0
    assert assay.containers(name) == []


def test_when_every_cell_is_lost_the_exit_status_and_the_first_line_say_so(assay: Any, workshop: Any) -> None:
    """R02, and an image that cannot be built. Naive: 'completed: 0 of 0 failed', exit 0."""
    workshop.task("broken", pip="pytest==0.0.1")
    study = workshop.study("all-lost", {"x": FIX})
    code, out, err = assay.run("run", study, "--max-infra-retries", "0")
    assert code == 1, err
    assert out.startswith("NO CELL HAS A RESULT")
    unit = next(iter(assay.ledger("all-lost").units.values()))
    assert (unit.detail["outcome"], unit.detail["reason"]) == ("infra_lost", "image_build")
    seal = (assay.studies / "all-lost" / unit.path / "live" / "SEAL.json").read_text()
    assert "pytest==0.0.1" in seal, "the build log is evidence"


def test_an_image_that_cannot_be_built_loses_its_own_cells_only(assay: Any, workshop: Any) -> None:
    workshop.task("good")
    workshop.task("broken", pip="pytest==0.0.1")
    study = workshop.study("half-lost", {"x": FIX})
    document = assay.json("run", study, "--max-infra-retries", "0", expect=1)
    assert document["cells"]["accepted"] == 1 and document["infra_lost"] == 1
    assert document["outcomes"] == {"completed": 1}


def test_only_the_images_of_selected_tasks_are_looked_at(assay: Any, workshop: Any) -> None:
    """R03. The other task's image cannot be built: looking at it would lose it."""
    workshop.task("good")
    workshop.task("broken", pip="pytest==0.0.1")
    study = workshop.study("selected", {"x": FIX})
    document = assay.json("run", study, "--task", "good")
    assert document["cells"] == {"total": 2, "accepted": 1, "pending": 1, "running": 0}
    assert document["infra_lost"] == 0 and document["verdicts"] is None
    assert [unit.detail["task"] for unit in assay.ledger("selected").units.values()] == ["good"]


def test_two_runs_of_one_study_at_once_never_mix(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("twice", {"x": SLOW_FIX})
    first = assay.start("run", study)
    await_running(assay, "twice", first)
    code, _, err = assay.run("run", study)
    assert code == 3 and "twice" in err and "Traceback" not in err
    assert first.wait(timeout=120) == 0
    assert len(assay.ledger("twice").started) == 1


def await_(condition: Callable[[], bool], timeout_s: float = 180.0) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.02)


def await_running(assay: Any, study: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until cells of the study run, or its process has ended."""
    board = assay.studies / study / "locks" / "running.json"
    await_(lambda: board.exists() or process.poll() is not None)


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9, as a crash does it."""
    process.kill()
    process.communicate()


def test_the_table_of_a_study_without_prefects_database_is_the_same(assay: Any, workshop: Any) -> None:
    """The study survives Prefect's database being wiped."""
    import shutil

    workshop.task("add")
    study = workshop.study("wiped", {"x": FIX, "y": "true"})
    first = assay.json("run", study, "--limit", "1")
    assert first["cells"]["accepted"] == 1
    assay.run("server", "stop")
    shutil.rmtree(Path(assay.studies) / ".prefect")
    document = assay.json("run", study)
    assert document["cells"]["accepted"] == 2 and len(assay.ledger("wiped").started) == 2
