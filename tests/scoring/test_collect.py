"""The host's side of a collection: what a broken or lying collector can and cannot make of it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import zstandard

from cells.artifacts import Role
from cells.attempt import SealedAttempt
from cells.errors import EvidenceError, InfraFailure
from cells.outcome import PatchState
from cells.sandbox import Frame
from scoring.collect import CollectLimits, collect
from scoring.collected import read_collected
from scoring.policy import PatchPolicy, decide
from tests.scoring.attempts import PlayedChannel, collector_frames, sealed_attempt
from tests.scoring.calc_task import patch_of

PATCH, CHANGES = patch_of({"a.py": b"a = 1\n"}, {"a.py": b"a = 2\n", "b.log": b"x\n"})
ROWS = [change.model_dump() | {"ignored": change.path == "b.log"} for change in CHANGES]


@pytest.fixture
def sealed(tmp_path: Path) -> SealedAttempt:
    return sealed_attempt(tmp_path / "a001")


def test_a_collection_is_durable_and_read_again(sealed: SealedAttempt) -> None:
    channel = PlayedChannel(collector_frames(ROWS, PATCH, archive=b"tree" * 1000))
    collected = collect(sealed, channel, "calc-1")
    assert read_collected(sealed) == collected
    assert channel.sent == [
        {"type": "collect", "base_tree": "1" * 40, "changes": 5000, "changed_bytes": 32 << 20, "patch_bytes": 32 << 20,
         "tree_bytes": 512 << 20},
    ]  # fmt: skip
    assert sealed.read("post/calc-1.unfiltered.patch", Role.SCORING) == PATCH
    packed = sealed.read("post/tree.tar.zst", Role.AUDIT)
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)).read() == b"tree" * 1000
    assert sealed.read("post/git.status.txt", Role.AUDIT) == b" M a.py\n!! b.log\n"
    rows = [json.loads(line) for line in sealed.read("post/journal.jsonl", Role.AUDIT).splitlines()]
    assert rows[-1]["name"] == "post/collect.json"


def broken(kind: str) -> list[Frame]:
    """Frames with one fault."""
    frames = collector_frames(ROWS, PATCH)
    facts, part, end = frames[0], frames[1], frames[2]
    faults: dict[str, list[Frame]] = {
        "nothing": [],
        "death in the middle": frames[:4],
        "no last word": frames[:-1],
        "an error": [Frame({"type": "error", "detail": "OSError: full"})],
        "facts are junk": [Frame({"type": "facts"}, b"{"), *frames[1:]],
        "facts with another key": [
            Frame({"type": "facts"}, facts.body[:-1] + b', "verdict": "resolved"}'),
            *frames[1:],
        ],
        "a part of another stream": [facts, Frame({"type": "part", "stream": "tree"}, b"x"), *frames[2:]],
        "another patch than its digest": [facts, Frame(part.header, part.body + b" "), *frames[2:]],
        "a patch without proof": [facts, part, Frame({**end.header, "round_trip": None}), *frames[3:]],
        "an end without a digest": [facts, part, Frame({"type": "end", "stream": "patch"}), *frames[3:]],
    }
    return faults[kind]


@pytest.mark.parametrize(
    "kind",
    ["nothing", "death in the middle", "no last word", "an error", "facts are junk", "facts with another key",
     "a part of another stream", "another patch than its digest", "a patch without proof", "an end without a digest"],
)  # fmt: skip
def test_a_collection_that_is_not_whole_is_lost_and_leaves_no_marker(kind: str, sealed: SealedAttempt) -> None:
    with pytest.raises(InfraFailure) as failure:
        collect(sealed, PlayedChannel(broken(kind)), "calc-1")
    assert failure.value.reason in ("collector_lost", "collector_failed", "bad_frame")
    assert not sealed.has("post/collect.json")


def test_a_stream_over_its_cap_is_refused_on_this_side_too(sealed: SealedAttempt) -> None:
    limits = CollectLimits(patch_bytes=10)
    with pytest.raises(InfraFailure, match="more than 10 bytes"):
        collect(sealed, PlayedChannel(collector_frames(ROWS, PATCH)), "calc-1", limits)


def test_a_patch_over_a_cap_leaves_no_cut_patch(sealed: SealedAttempt) -> None:
    frames = collector_frames(ROWS, PATCH[:20])
    frames[2] = Frame({**frames[2].header, "complete": False, "reason": "patch_bytes", "round_trip": None})
    collected = collect(sealed, PlayedChannel(frames), "calc-1")
    assert collected.over_cap == "patch_bytes"
    assert sealed.read("post/calc-1.unfiltered.patch", Role.SCORING) == b""


def test_a_git_that_fails_is_our_fault_and_no_rejection(sealed: SealedAttempt) -> None:
    frames = collector_frames(ROWS, b"")
    frames[2] = Frame({**frames[2].header, "complete": False, "reason": "git_failed", "round_trip": None})
    collected = collect(sealed, PlayedChannel(frames), "calc-1")
    assert decide(collected, [], PatchPolicy("pytest", "/workspace")).state is PatchState.UNAPPLIABLE


def test_a_collection_whose_file_changed_is_refused(sealed: SealedAttempt) -> None:
    collect(sealed, PlayedChannel(collector_frames(ROWS, PATCH)), "calc-1")
    path = sealed.root / "post/git.status.txt"
    path.chmod(0o600)
    path.write_bytes(b"nothing changed\n")
    with pytest.raises(EvidenceError, match=r"git\.status\.txt"):
        read_collected(sealed)
