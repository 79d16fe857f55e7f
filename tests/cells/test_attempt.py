"""An attempt is written in one order only, and a seal is believed only after it was verified again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cells.artifacts import Role, UndeclaredArtifact
from cells.artifacts.conditions import Condition
from cells.attempt import LiveAttempt, SealedAttempt, open_sealed
from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence.digest import digest_bytes

FACTS = {"ended": "completed", "exit_code": 0}


@pytest.fixture
def live(tmp_path: Path) -> LiveAttempt:
    attempt = LiveAttempt.create(tmp_path / "a001")
    attempt.write("start/spec.json", b"{}", "planner")
    return attempt


@pytest.fixture
def sealed(live: LiveAttempt) -> SealedAttempt:
    live.seal_start("bwrap", {"bwrap": "0.8.0"})
    live.append("live/trace.jsonl", b'{"turn":0}\n', "gateway")
    live.write("live/harness/logs/run%FF.log", b"text", "gatherer")
    return live.seal([{"kind": "turns_differ"}], FACTS)


def test_post_does_not_exist_before_the_live_seal(live: LiveAttempt) -> None:
    live.seal_start("bwrap", {})
    assert not (live.root / "post").exists()
    sealed = live.seal([], FACTS)
    assert not (live.root / "post").exists()
    sealed.write("post/verdict.txt", b"resolved\n", "scorer")
    assert (live.root / "post").is_dir()


def test_live_code_has_no_way_to_write_a_post_run_file(live: LiveAttempt) -> None:
    for write in (live.write, live.append):
        with pytest.raises(BoundaryViolation):
            write("post/verdict.txt", b"resolved", "scorer")
    with pytest.raises(BoundaryViolation, match="after the seal only"):
        live.claim("post/verify.json", "verifier")
    assert not (live.root / "post").exists()


def test_a_file_without_a_row_is_not_written(live: LiveAttempt) -> None:
    with pytest.raises(UndeclaredArtifact):
        live.write("live/scratch.txt", b"", "launcher")
    assert not (live.root / "live/scratch.txt").exists()


def test_a_writer_that_the_row_does_not_name_is_refused(live: LiveAttempt) -> None:
    with pytest.raises(BoundaryViolation, match="written by 'gateway'; its row allows launcher, planner"):
        live.write("start/plan.json", b"{}", "gateway")


def test_a_file_is_created_once(live: LiveAttempt) -> None:
    with pytest.raises(EvidenceError, match="created once"):
        live.write("start/spec.json", b"other", "planner")
    assert (live.root / "start/spec.json").read_bytes() == b"{}"


def test_start_is_closed_by_its_seal(live: LiveAttempt) -> None:
    live.seal_start("bwrap", {})
    with pytest.raises(BoundaryViolation, match="start/ is closed by its seal"):
        live.write("start/plan.json", b"{}", "planner")
    with pytest.raises(BoundaryViolation, match="sealed once"):
        live.seal_start("bwrap", {})


def test_nothing_is_sealed_before_the_start_is(live: LiveAttempt) -> None:
    with pytest.raises(BoundaryViolation, match="start/ is not sealed"):
        live.seal([], FACTS)


def test_live_is_closed_by_its_seal(live: LiveAttempt, sealed: SealedAttempt) -> None:
    with pytest.raises(BoundaryViolation, match="live/ is closed by its seal"):
        live.append("live/trace.jsonl", b"{}\n", "gateway")
    with pytest.raises(BoundaryViolation, match="sealed already"):
        live.seal([], FACTS)
    with pytest.raises(BoundaryViolation, match="allowed after the seal are post/"):
        sealed.write("live/trace.jsonl", b"{}\n", "gateway")


def test_a_record_that_is_written_once_cannot_be_appended_to(live: LiveAttempt) -> None:
    with pytest.raises(BoundaryViolation, match="written once"):
        live.append("live/harness/metrics.json", b"{}", "gatherer")


def test_an_attempt_is_never_made_over_another(live: LiveAttempt) -> None:
    with pytest.raises(EvidenceError, match="never rewritten"):
        LiveAttempt.create(live.root)


def test_the_live_seal_binds_the_start_seal_and_every_member(sealed: SealedAttempt) -> None:
    assert set(sealed.seal["members"]) == {"live/trace.jsonl", "live/harness/logs/run%FF.log"}
    assert sealed.seal["previous"] == digest_bytes((sealed.root / "start/SEAL.json").read_bytes())
    assert sealed.seal_digest == digest_bytes((sealed.root / "live/SEAL.json").read_bytes())
    assert sealed.seal["boundary"] == "bwrap"
    assert sealed.facts == FACTS
    assert sealed.seal["findings"] == [{"kind": "turns_differ"}]


def test_sealed_folders_and_files_are_read_only(sealed: SealedAttempt) -> None:
    for folder in ("start", "live", "live/harness", "live/harness/logs"):
        assert (sealed.root / folder).stat().st_mode & 0o222 == 0
    assert (sealed.root / "live/trace.jsonl").stat().st_mode & 0o222 == 0


def test_a_boundary_that_is_no_mechanism_is_refused(live: LiveAttempt) -> None:
    with pytest.raises(BoundaryViolation, match="allowed are bwrap, container, uid, none"):
        live.seal_start("trust", {})


def test_an_undeclared_live_file_is_not_sealed(live: LiveAttempt) -> None:
    live.seal_start("bwrap", {})
    (live.root / "live/stray.bin").write_bytes(b"")
    with pytest.raises(UndeclaredArtifact, match=r"stray.bin"):
        live.seal([], FACTS)


def test_a_start_that_changed_before_the_seal_is_not_sealed(live: LiveAttempt) -> None:
    live.seal_start("bwrap", {})
    (live.root / "start/spec.json").chmod(0o640)
    (live.root / "start/spec.json").write_bytes(b"{ }")
    with pytest.raises(EvidenceError, match=r"start/spec.json: changed after the seal"):
        live.seal([], FACTS)


def test_a_sealed_attempt_cannot_be_made_by_hand(live: LiveAttempt) -> None:
    with pytest.raises(BoundaryViolation, match=r"made by LiveAttempt.seal and open_sealed"):
        SealedAttempt(live.root, {}, live._contract, object())


def test_an_untouched_attempt_opens_again(sealed: SealedAttempt) -> None:
    again = open_sealed(sealed.root)
    assert again.seal == sealed.seal
    assert again.names() == sealed.names()


def _edit(root: Path) -> None:
    (root / "live/trace.jsonl").chmod(0o640)
    with (root / "live/trace.jsonl").open("ab") as stream:
        stream.write(b'{"turn":1}\n')


def _delete(root: Path) -> None:
    (root / "live/trace.jsonl").unlink()


def _add(root: Path) -> None:
    (root / "start/plan.json").write_bytes(b"{}")


def _link(root: Path) -> None:
    (root / "live/trace.jsonl").unlink()
    (root / "live/trace.jsonl").symlink_to(root / "start/spec.json")


def _hard_link(root: Path) -> None:
    os.link(root / "live/trace.jsonl", root.parent / "elsewhere")


def _reseal_start(root: Path) -> None:
    seal = json.loads((root / "start/SEAL.json").read_bytes())
    seal["boundary"] = "none"
    (root / "start/SEAL.json").chmod(0o640)
    (root / "start/SEAL.json").write_text(json.dumps(seal, sort_keys=True, separators=(",", ":")))


def _pretty_seal(root: Path) -> None:
    path = root / "live/SEAL.json"
    path.chmod(0o640)
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=1))


def _remove_seal(root: Path) -> None:
    (root / "live/SEAL.json").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_edit, "live/trace.jsonl: changed after the seal"),
        (_delete, "live/trace.jsonl: missing since the seal"),
        (_add, "start/plan.json: added after the seal"),
        (_link, "expected a file or a directory"),
        (_hard_link, "one link"),
        (_reseal_start, "continues another start seal"),
        (_pretty_seal, "not in its canonical form"),
        (_remove_seal, "cannot be opened"),
    ],
)
def test_a_changed_attempt_does_not_open(sealed: SealedAttempt, change: Callable[[Path], None], said: str) -> None:
    for folder in ("start", "live"):
        (sealed.root / folder).chmod(0o750)
    change(sealed.root)
    with pytest.raises(EvidenceError, match=said):
        open_sealed(sealed.root)


def test_every_post_run_file_is_chained_to_the_live_seal(sealed: SealedAttempt) -> None:
    first = sealed.write("post/git.status.txt", b"", "collector")
    second = sealed.stream("post/tree.tar.zst", iter([b"ab", b"cd"]), "collector")
    rows = [json.loads(line) for line in (sealed.root / "post/journal.jsonl").read_bytes().splitlines()]
    assert [(row["name"], row["digest"]) for row in rows] == [
        ("post/git.status.txt", first),
        ("post/tree.tar.zst", second),
    ]
    assert rows[0]["prev"] == sealed.seal_digest
    assert rows[1]["prev"] == digest_bytes((sealed.root / "post/journal.jsonl").read_bytes().splitlines()[0])
    assert second == digest_bytes(b"abcd")


def test_a_torn_journal_row_does_not_lose_the_attempt(sealed: SealedAttempt) -> None:
    sealed.write("post/git.status.txt", b"", "collector")
    with (sealed.root / "post/journal.jsonl").open("ab") as stream:
        stream.write(b'{"v":1,"se')
    open_sealed(sealed.root).write("post/patch_gate.txt", b"ok", "gate")
    lines = (sealed.root / "post/journal.jsonl").read_bytes().splitlines()
    assert json.loads(lines[2])["prev"] == digest_bytes(lines[0])


def test_a_stream_that_breaks_leaves_no_file_and_can_be_written_again(sealed: SealedAttempt) -> None:
    def broken() -> object:
        yield b"half"
        raise RuntimeError("the collector died")

    with pytest.raises(RuntimeError):
        sealed.stream("post/tree.tar.zst", broken(), "collector")  # type: ignore[arg-type]
    assert not sealed.has("post/tree.tar.zst")
    assert "post/.tree.tar.zst.part" not in sealed.names()
    again = open_sealed(sealed.root)
    again.write("post/tree.tar.zst", b"whole", "collector")
    assert again.read("post/tree.tar.zst", Role.AUDIT) == b"whole"
    assert sorted(path.name for path in (sealed.root / "post").iterdir()) == ["journal.jsonl", "tree.tar.zst"]


def test_a_post_run_file_is_created_once_and_by_its_writer(sealed: SealedAttempt) -> None:
    sealed.write("post/verdict.txt", b"unresolved\n", "scorer")
    with pytest.raises(EvidenceError, match="created once"):
        sealed.write("post/verdict.txt", b"resolved\n", "scorer")
    with pytest.raises(BoundaryViolation, match="its row allows"):
        sealed.write("post/verify.json", b"{}", "scorer")
    with pytest.raises(BoundaryViolation, match="journal"):
        sealed.write("post/journal.jsonl", b"", "post-run journal")


def test_a_planted_link_in_the_way_is_not_followed(sealed: SealedAttempt, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (sealed.root / "post").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BoundaryViolation, match="expected a directory of ours"):
        sealed.write("post/verdict.txt", b"resolved\n", "scorer")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_reading_needs_a_role_and_for_conditional_rows_the_stated_purpose(sealed: SealedAttempt) -> None:
    sealed.write("post/git.status.txt", b"clean", "collector")
    assert sealed.read("post/git.status.txt", Role.SCORING, Condition.FINAL_TREE) == b"clean"
    assert sealed.read("post/git.status.txt", "audit") == b"clean"
    with pytest.raises(BoundaryViolation, match="FINAL_TREE"):
        sealed.read("post/git.status.txt", Role.SCORING)
    with pytest.raises(BoundaryViolation, match="asked by controller at live-prefix"):
        sealed.read("post/git.status.txt", Role.CONTROLLER, Condition.FINAL_TREE)
