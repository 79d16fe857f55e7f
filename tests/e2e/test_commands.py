"""The command line as its users meet it: what is refused, what is revised, what is hidden, what waits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIX = "sed -i 's/a - b/a + b/' calc.py"


def engine(test: Any) -> Any:
    """A test that runs cells."""
    return pytest.mark.engine(pytest.mark.e2e(pytest.mark.timeout(600)(test)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seed = 5", "seed = 5\ncolour = 1", ("study.colour", "unknown key")),
        ("samples = 1", 'samples = "two"', ("study.samples", "'two'")),
        ('tasks = ["tasks/*"]', 'tasks = ["nowhere/*"]', ("study.tasks.0", "nowhere/*")),
        ('harness = "command"', 'harness = "comand"', ("arms.x.harness", "comand", "reference")),
        ("settings = { command", "settings = { comand", ("arms.x.settings", "comand")),
        ("wall_s = 60", "wall_s = 60\n[arms.x.limits]\nwall_s = 90", ("arms.x.limits.wall_s", "90", "60")),
    ],
)
def test_a_wrong_study_file_ends_with_2_names_line_and_key_and_creates_nothing(
    assay: Any, workshop: Any, tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    workshop.task("add")
    study = workshop.study("wrong", {"x": FIX})
    content = study.read_text()
    assert old in content
    study.write_text(content.replace(old, new, 1))
    code, out, err = assay.run("run", study, studies=tmp_path / "fresh")
    assert (code, out) == (2, ""), err
    assert all(word in err for word in words) and "Traceback" not in err, err
    assert f"{study}:" in err
    assert not (tmp_path / "fresh").exists()


def test_a_model_without_its_key_is_refused_by_name_before_anything_exists(
    assay: Any, workshop: Any, tmp_path: Path
) -> None:
    workshop.task("add")
    model = '[models.live]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
    model += 'api_key_env = "NO_SUCH_KEY"\n'
    study = workshop.study("keyless", {"x": FIX}, more=model + '[arms.live]\nharness = "reference"\nmodel = "live"\n')
    code, _, err = assay.run("plan", study, studies=tmp_path / "fresh")
    assert code == 2 and "NO_SUCH_KEY" in err and "models.live.api_key_env" in err
    assert not (tmp_path / "fresh").exists()


def test_the_same_task_id_twice_is_refused(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    workshop.task("other")
    toml = workshop.directory / "tasks" / "other" / "task.toml"
    toml.write_text(toml.read_text().replace('id = "other"', 'id = "add"'))
    code, _, err = assay.run("plan", workshop.study("twins", {"x": FIX}))
    assert code == 2 and "'add'" in err and "differ" in err


def test_without_an_engine_the_run_ends_with_3_and_says_what_to_do(assay: Any, workshop: Any, tmp_path: Path) -> None:
    workshop.task("add")
    study = workshop.study("engineless", {"x": FIX})
    code, _, err = assay.run("run", study, environment={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert code == 3 and "none.sock" in err and "DOCKER_HOST" in err and "Traceback" not in err


def test_a_changed_file_is_refused_explained_and_accepted_as_a_revision(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    first = assay.json("plan", workshop.study("revised", {"x": FIX, "y": "true"}))
    changed = workshop.study("revised", {"x": FIX, "y": "exit 0"}, samples=2)
    code, _, err = assay.run("run", changed)
    assert code == 2 and "differs from the frozen plan" in err and "--accept" in err
    diff = assay.json("plan", changed, "--diff")
    assert diff["kept"] == 1
    found = sorted((change["kind"], change["arm"], change["sample"]) for change in diff["changes"])
    assert found == [("new", "x", 2), ("new", "y", 2), ("rerun", "y", 1)]
    why = next(change["why"] for change in diff["changes"] if change["kind"] == "rerun")
    assert any("settings.command" in line for line in why)
    second = assay.json("plan", changed, "--accept")
    assert (second["revision"], second["study"]) == (2, "revised")
    kept = {cell["cell_id"] for cell in first["cells"]} & {cell["cell_id"] for cell in second["cells"]}
    assert len(kept) == 1
    assert [row.kind for row in assay.rows("revised")] == ["planned", "revised"]


@pytest.mark.parametrize("name", ["study.json", "plan.lock.json"])
def test_a_study_that_was_changed_by_hand_is_refused_by_name_and_left_alone(
    assay: Any, workshop: Any, name: str
) -> None:
    workshop.task("add")
    study = workshop.study(f"touched-{name[:4]}", {"x": FIX})
    assay.json("plan", study)
    path = assay.studies / f"touched-{name[:4]}" / name
    path.chmod(0o640)
    altered = path.read_bytes().replace(b'"seed":5', b'"seed":6')
    path.write_bytes(altered)
    code, _, err = assay.run("run", study)
    assert code == 4 and name in err and "changed by hand" in err
    assert path.read_bytes() == altered


def test_a_study_of_another_version_is_refused(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("newer", {"x": FIX})
    assay.json("plan", study)
    ledger = assay.studies / "newer" / "ledger.jsonl"
    ledger.chmod(0o640)
    ledger.write_bytes(ledger.read_bytes().replace(b'"layout":1', b'"layout":9'))
    code, _, err = assay.run("status", "newer")
    assert code == 4 and "newer" in err and "Traceback" not in err


def test_more_workers_than_memory_allows_are_reduced_and_said() -> None:
    from dataclasses import replace

    from cells.design.limits import study_limits
    from cells.design.study_model import LimitsSection
    from flows.admission import admit

    limits = replace(study_limits(LimitsSection()), memory_mb=900, disk_mb=100)
    assert admit(4, [limits], 100_000).note is None
    few = admit(4, [limits], 2_600)
    assert few.workers == 2 and few.note is not None and "4 workers" in few.note and "running with 2" in few.note
    assert admit(4, [limits], 10).workers == 1
    assert admit(4, [replace(limits, disk_backing="file")], 2_600).workers == 2


@engine
def test_status_show_verify_and_the_end_of_a_run_agree(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("whole", {"fix": FIX, "none": "true", "fails": "exit 3"})
    end = assay.json("run", study)
    status = assay.json("status", "whole")
    assert {key: status[key] for key in ("cells", "outcomes", "verdicts")} == {
        "cells": {"total": 3, "accepted": 3, "pending": 0, "running": 0},
        "outcomes": {"completed": 1, "empty_patch": 1, "harness_error": 1},
        "verdicts": {"resolved": 1, "unresolved": 2, "invalid": 0, "not_run": 0},
    }
    assert all(end[key] == status[key] for key in ("cells", "outcomes", "verdicts", "plan_sha256", "cost"))
    assert set(status["phase_s"]) == {
        "prepare",
        "launch",
        "run",
        "seal",
        "collect",
        "gate",
        "verify",
        "score",
        "publish",
    }
    shown = assay.json("show", "whole", "add/fix/1")
    assert shown["accepted"]["verdict"] == "resolved"
    rows = {row["name"]: row for row in shown["files"]}
    assert rows["post/verdict.txt"]["ready"] == "post-run" and "context" not in rows["post/verdict.txt"]["readers"]
    assert assay.run("show", "whole", shown["cell_id"][7:15])[0] == 0
    code, _, err = assay.run("show", "whole", "add/none/9")
    assert code == 2 and "add/none/9" in err
    assert assay.json("verify", assay.studies / "whole") | {"checked": 3, "ok": True, "problems": []} == assay.json(
        "verify", assay.studies / "whole"
    )


@engine
def test_verdicts_are_hidden_while_cells_are_open_and_unblinding_is_recorded(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("blind", {"x": FIX, "y": FIX})
    document = assay.json("run", study, "--limit", "1")
    assert document["cells"]["accepted"] == 1 and document["verdicts"] is None
    done = next(iter(assay.ledger("blind").accepted_units().values()))
    cell = f"{done.detail['task']}/{done.detail['arm']}/{done.detail['sample']}"
    assert assay.json("show", "blind", cell)["accepted"]["verdict"] == "hidden while cells are open"
    assert assay.json("status", "blind", "--unblind")["verdicts"]["resolved"] == 1
    assert [row.kind for row in assay.rows("blind")].count("unblinded") == 1


@engine
def test_a_paused_run_waits_and_running_the_study_again_lets_it_go_on(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("pausing", {"a": FIX, "b": FIX, "c": FIX})
    assay.json("plan", study)
    process = assay.start("run", study, "--workers", "1")
    await_(lambda: len(assay.ledger("pausing").started) >= 1)
    assert assay.run("pause", "pausing")[0] == 0
    await_(
        lambda: (
            assay.json("status", "pausing")["paused"] == "asked to pause"
            and not assay.json("status", "pausing")["running"]
        )
    )
    assert process.poll() is None
    code, _, err = assay.run("run", study)
    assert code == 3 and "told to go on" in err
    assert process.wait(timeout=120) == 0
    assert len(assay.ledger("pausing").accepted) == 3


@engine
def test_a_stopped_run_ends_after_its_running_cells_and_can_go_on(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("stopping", {"a": f"sleep 2; {FIX}", "b": f"sleep 2; {FIX}", "c": f"sleep 2; {FIX}"})
    assay.json("plan", study)
    process = assay.start("run", study, "--workers", "1")
    await_(lambda: len(assay.ledger("stopping").started) >= 1)
    assert assay.run("stop", "stopping")[0] == 0
    assert process.wait(timeout=120) == 130
    before = assay.ledger("stopping")
    assert 1 <= len(before.accepted) < 3 and len(before.started) == len(before.accepted), "a running cell was cut off"
    assert assay.json("run", study)["cells"]["accepted"] == 3


@engine
def test_a_task_whose_control_fails_is_withheld_and_the_summary_says_so(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    (workshop.directory / "tasks" / "add" / "sealed" / "gold.patch").write_text(
        "diff --git a/note b/note\nnew file mode 100644\n--- /dev/null\n+++ b/note\n@@ -0,0 +1 @@\n+no fix\n"
    )
    controls = "[controls]\noracle = true\nnop = true\n"
    study = workshop.study("unfit", {"x": FIX}, more=controls)
    code, out, _ = assay.run("run", study)
    assert code == 1 and "withheld: task add: its oracle control is unresolved" in out
    assert len(assay.ledger("unfit").accepted) == 2
    admitted = study.read_text().replace("samples = 1", 'samples = 1\ntasks_without_control = ["add"]')
    study.write_text(admitted)
    assert assay.run("plan", study, "--accept")[0] == 0
    document = assay.json("run", study)
    assert document["cells"]["accepted"] == 3 and document["withheld"] == {}


@engine
def test_a_spent_budget_pauses_the_study(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    usage = {"input": 1000, "output": 0}
    reply = {"content": "done", "finish": "stop", "usage": usage}
    (workshop.directory / "script.jsonl").write_text(json.dumps(reply) + "\n")
    more = (
        '[budget]\ncost = "0.001"\n[models.m]\nprovider = "scripted"\nscript = "script.jsonl"\n'
        'price = { input_per_mtok = "1", output_per_mtok = "1" }\n[arms.m]\nharness = "reference"\nmodel = "m"\n'
    )
    study = workshop.study("broke", {}, samples=3, more=more)
    code, out, err = assay.run("run", study, "--workers", "1")
    assert code == 130 and "budget is spent" in out + err
    assert len(assay.ledger("broke").accepted) == 1
    assert assay.json("status", "broke")["cost"] == {"amount": "0.001", "currency": "USD"}


def await_(condition: Callable[[], bool], timeout_s: float = 180.0) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.05)


@engine
def test_an_endpoint_that_is_down_pauses_the_study_instead_of_burning_its_cells(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    more = (
        '[models.m]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nmax_retries = 1\n'
        '[arms.m]\nharness = "reference"\nmodel = "m"\n'
    )
    study = workshop.study("unplugged", {}, samples=12, more=more)
    code, out, err = assay.run("run", study, "--workers", "2", "--max-infra-retries", "0")
    assert code == 130 and "is down" in out + err, out + err
    assert len(assay.ledger("unplugged").started) < 12
    assert assay.ledger("unplugged").accepted == {}


@engine
def test_a_regrade_keeps_the_old_verdict_and_the_tables_say_which_one_they_use(assay: Any, workshop: Any) -> None:
    workshop.task("add")
    study = workshop.study("again", {"fix": FIX, "none": "true"})
    assay.json("run", study)
    before = assay.ledger("again").accepted
    first = assay.json("regrade", "again", "--diff")
    assert (first["regraded"], first["changed"], first["cells"]) == (2, 0, [])
    second = assay.json("regrade", "again", "--cell", "add/fix/1")
    assert [(cell["verification"], cell["before"], cell["after"]) for cell in second["cells"]] == [
        ("v003", "resolved", "resolved")
    ]
    history = assay.ledger("again")
    assert history.accepted == before
    kinds = sorted(unit.kind for unit in history.units.values())
    assert kinds == ["attempt"] * 2 + ["score"] * 3 + ["verification"] * 3
    assert assay.json("show", "again", "add/fix/1")["accepted"]["verification"] == 3
    assert assay.json("verify", assay.studies / "again")["checked"] == 8
