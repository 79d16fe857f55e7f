"""Order of an attempt, proved afterwards: start before live, live before the seal, post after it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cells.attempt import LiveAttempt
from cells.audit.attempt import audit_attempt, audit_study
from flows.cli.audit import command


def attempt(root: Path, *, sealed: bool = True, post: bool = True) -> Path:
    """An attempt of a cell without a model."""
    live = LiveAttempt.create(root)
    live.write("start/spec.json", b"{}", "planner")
    live.seal_start("bwrap", {"live_readers": 0})
    for name in ("wire.jsonl", "trace.jsonl", "transcript.log", "usage.jsonl"):
        live.write(f"live/{name}", b"", "gateway" if name == "wire.jsonl" else "launcher")
    if sealed:
        after = live.seal([], {"ended": "completed"})
        if post:
            after.write("post/git.status.txt", b"", "collector")
            after.write("post/verdict.txt", b"resolved\n", "scorer")
    return root


def kinds(root: Path) -> set[str]:
    return {one.kind for one in audit_attempt(root, "a").violations}


def test_an_untouched_attempt_is_ok_and_says_so_in_one_line(tmp_path: Path) -> None:
    audit = audit_attempt(attempt(tmp_path / "a"), "cells/c/attempts/a001")
    assert audit.line() == (
        "ok         cells/c/attempts/a001  boundary bwrap; no live reader; post 3 files after the seal"
    )


def test_a_lost_attempt_without_a_seal_is_ok_while_nothing_came_after(tmp_path: Path) -> None:
    root = attempt(tmp_path / "a", sealed=False)
    assert audit_attempt(root, "a").ok
    (root / "post").mkdir()
    assert kinds(root) == {"post_before_seal"}


def _append(name: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with (root / name).open("ab") as stream:
            stream.write(b"\n")

    return change


def _remove(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def _create(name: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")

    return change


def _reorder_journal(root: Path) -> None:
    path = root / "post/journal.jsonl"
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))


def _foreign_journal(root: Path) -> None:
    """post/ of another attempt: written after another seal."""
    path = root / "post/journal.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    rows[0]["prev"] = "sha256:" + "0" * 64
    path.write_text("".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_append("start/spec.json"), "start_changed"),
        (_remove("start/spec.json"), "start_changed"),
        (_create("start/plan.json"), "start_changed"),
        (_append("live/usage.jsonl"), "live_changed"),
        (_remove("live/usage.jsonl"), "live_changed"),
        (_create("live/system_log.jsonl"), "live_changed"),
        (_append("start/SEAL.json"), "seal_broken"),
        (_append("live/SEAL.json"), "seal_broken"),
        (_append("post/verdict.txt"), "post_not_chained"),
        (_remove("post/verdict.txt"), "post_not_chained"),
        (_create("post/verify.json"), "post_not_chained"),
        (_remove("post/journal.jsonl"), "post_not_chained"),
        (_reorder_journal, "post_not_chained"),
        (_foreign_journal, "post_not_chained"),
        (_create("post/notes.txt"), "undeclared"),
        (_create("live/harness/correction.json"), "assistant_only"),
        (lambda root: os.mkfifo(root / "post/verify.json"), "not_a_file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_is_a_violation_of_its_kind(tmp_path: Path, change: Callable[[Path], None], kind: str) -> None:
    root = attempt(tmp_path / "a")
    for folder, _, names in os.walk(root):
        os.chmod(folder, 0o750)
        for name in names:
            os.chmod(Path(folder) / name, 0o640)
    change(root)
    assert kind in kinds(root)


def test_the_command_has_one_line_an_attempt_and_ends_with_4_on_a_violation(tmp_path: Path) -> None:
    study = tmp_path / "studies/s1"
    for number in (1, 2):
        attempt(study / f"cells/c{number}/attempts/a001")
    (study / "study.json").write_text("{}")
    good = CliRunner().invoke(command, ["s1", "--studies", str(tmp_path / "studies"), "--json"])
    assert good.exit_code == 0
    assert [one["ok"] for one in json.loads(good.stdout)["attempts"]] == [True, True]
    _create("post/notes.txt")(study / "cells/c2/attempts/a001")
    bad = CliRunner().invoke(command, ["s1", "--studies", str(tmp_path / "studies")])
    assert bad.exit_code == 4
    assert bad.stdout.splitlines()[0].startswith("ok         cells/c1")
    assert "VIOLATION  cells/c2/attempts/a001" in bad.stdout
    assert len(list(audit_study(study))) == 2
