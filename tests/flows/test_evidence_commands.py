"""The commands of evidence as a person and a script meet them: exit codes, one JSON document, nothing changed when
refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cells.evidence.design_binding import tree_digest
from cells.evidence.specimen import specimen_study
from cells.evidence.study_store import StudyStore
from flows.cli.main import main


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyStore:
    monkeypatch.setenv("ASSAY_STUDIES", str(tmp_path / "studies"))
    monkeypatch.setenv("ASSAY_REGISTRY", str(tmp_path / "registry"))
    return specimen_study(tmp_path / "studies", "s", cells=2)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """The JSON document that a command prints, after its exit code was checked."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    if code:
        assert captured.err.startswith("assay: ") or "Usage" in captured.err
        assert "Traceback" not in captured.err
    return json.loads(captured.out) if captured.out else None


def test_verify_says_ok_or_four(store: StudyStore, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = run(capsys, "verify", str(store.path))
    assert (document["ok"], document["checked"], document["problems"]) == (True, 2, [])
    unit = next(iter(store.accepted().values()))
    (store.bundle(unit) / "live/trace.jsonl").chmod(0o640)
    (store.bundle(unit) / "live/trace.jsonl").write_bytes(b"")
    document = run(capsys, "verify", str(store.root.path), code=4)
    assert document["problems"][0]["kind"] == "altered"
    assert document["problems"][0]["path"] == f"s/{unit.path}/live/trace.jsonl"
    run(capsys, "verify", str(tmp_path), code=4)
    assert main(["verify", str(store.path)]) == 4


def test_a_study_goes_out_and_comes_back(store: StudyStore, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = run(capsys, "export", "s", "--output", str(tmp_path / "s.tar.zst"))
    assert made["entries"] > 10
    run(capsys, "export", "s", "--output", str(tmp_path / "s.tar.zst"), code=4)
    assert run(capsys, "verify", made["path"])["ok"]
    back = run(capsys, "restore", made["path"], "--studies", str(tmp_path / "other"))
    assert back["accepted"] == 2
    run(capsys, "restore", made["path"], "--studies", str(tmp_path / "other"), code=4)


def test_archive_label_withdraw_fork_and_the_registry(
    store: StudyStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, "archive", "s")["changed"] is True
    assert run(capsys, "archive", "s")["changed"] is False
    assert run(capsys, "unarchive", "s")["changed"] is True
    assert run(capsys, "label", "s", "--add", "baseline")["labels"] == ["baseline"]
    unit = next(iter(store.accepted().values()))
    assert run(capsys, "withdraw", "s", unit.path, "--reason", "x")["withdrawn"] == [unit.path]
    assert run(capsys, "fork", "s", "again")["lineage"]["study"] == "s"
    root = run(capsys, "studies", "add", str(store.root.path))["id"]
    assert {row["study"] for row in run(capsys, "studies")["studies"]} == {"s", "again"}
    run(capsys, "studies", "group", "g", "--child", f"{root}/s", "--directive", "look")
    assert run(capsys, "studies", "sync", "g")["snapshots"][0]["state"] == "current"
    run(capsys, "label", "again", "--add", "x")
    run(capsys, "label", "s", "--add", "y")
    assert run(capsys, "studies", "snapshots", "g")["snapshots"][0]["state"] == "stale"


@pytest.mark.requirement(49)
def test_purge_previews_refuses_and_removes(store: StudyStore, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree_digest(store.path / "cells")
    seen = run(capsys, "purge", "s", store.id, "--preview")
    assert seen["bytes"] > 0 and "not archived" in seen["refusals"][0]
    run(capsys, "purge", "s", store.id, "--confirm", store.id, code=4)
    run(capsys, "purge", "s", "s", "--confirm", "s", code=2)
    run(capsys, "purge", "s", store.id, code=2)
    assert tree_digest(store.path / "cells") == before
    run(capsys, "archive", "s")
    run(capsys, "purge", "s", store.id, "--confirm", "sha256:" + "0" * 64, code=2)
    assert run(capsys, "purge", "s", store.id, "--confirm", store.id)["entries"] > 10
    assert not (store.path / "cells").exists()
    assert run(capsys, "verify", str(store.path))["ok"]


def test_a_study_that_another_process_writes_is_an_environment_error(
    store: StudyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "archive", "s")
    with store.writing():
        run(capsys, "purge", "s", store.id, "--confirm", store.id, code=3)


def test_names_that_are_not_there_are_usage_errors(store: StudyStore, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "archive", "nothing", code=2)
    run(capsys, "label", "s", "cells/nothing", "--add", "x", code=2)
    run(capsys, "supersede", "s", "a", "--reason", "x", code=2)
    run(capsys, "withdraw", "s", "cells/none/attempts/a001", "--reason", "x", code=4)
