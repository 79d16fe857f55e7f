"""Attacks on whoever reads or writes evidence on the host: links and races in its way, and code that reaches too far.

Naive: check the path, then open it; append to a name; trust the reader's own discipline.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from cells.artifacts import Role
from cells.artifacts.access import LiveReader, ReaderContract
from cells.artifacts.model import LIVE_ROLES
from cells.attempt import LiveAttempt, open_sealed
from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence.files import read_regular
from launchers.detectors.choice import environment, find_mechanism
from launchers.detectors.mechanism import Mechanism, interpreters
from launchers.detectors.program import PROBE

pytestmark = pytest.mark.attack
SECRET = b"secret of the host"


def test_a_race_between_a_file_and_a_link_gives_no_byte_of_what_the_link_names(tmp_path: Path) -> None:
    """Probe p03: open after a check leaked thousands of times in seconds."""
    secret, swapped = tmp_path / "secret", tmp_path / "post.patch"
    secret.write_bytes(SECRET)
    stop = threading.Event()

    def swap() -> None:
        link, plain = tmp_path / "link", tmp_path / "plain"
        while not stop.is_set():
            link.symlink_to(secret)
            os.replace(link, swapped)
            plain.write_bytes(b"mine")
            os.replace(plain, swapped)

    swapper = threading.Thread(target=swap)
    swapper.start()
    read, refused = set(), 0
    for _ in range(20_000):
        try:
            read.add(read_regular(swapped))
        except EvidenceError:
            refused += 1
    stop.set()
    swapper.join()
    assert SECRET not in read
    assert b"mine" in read and refused, "the race was really run"


@pytest.mark.parametrize("write", ["append", "write"])
def test_a_link_planted_under_a_live_name_is_not_written_through(tmp_path: Path, write: str) -> None:
    """Probe p02b: the host appended its trace through a link into post/."""
    attempt = LiveAttempt.create(tmp_path / "a")
    outside = tmp_path / "verdict.txt"
    outside.write_bytes(b"unresolved")
    name = "live/noise.jsonl" if write == "append" else "live/fingerprint.txt"
    (attempt.root / name).symlink_to(outside)
    with pytest.raises((OSError, EvidenceError)):
        if write == "append":
            attempt.append(name, b"x", "sampler")
        else:
            attempt.write(name, b"x", "sealer")
    assert outside.read_bytes() == b"unresolved"


@pytest.mark.parametrize("plant", ["symlink", "hardlink", "fifo", "directory", "socket"])
def test_a_seal_over_anything_but_plain_files_is_refused_and_nothing_hangs(tmp_path: Path, plant: str) -> None:
    """Probe p04: the host's open of a planted pipe hung."""
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    target = attempt.root / "live/harness.stdout.log"
    (tmp_path / "other").write_bytes(SECRET)
    if plant == "symlink":
        target.symlink_to(tmp_path / "other")
    elif plant == "hardlink":
        os.link(tmp_path / "other", target)
    elif plant == "fifo":
        os.mkfifo(target)
    elif plant == "socket":
        import socket

        socket.socket(socket.AF_UNIX).bind(str(target))
    else:
        deep = target
        for _ in range(70):
            deep = deep / "d"
        deep.mkdir(parents=True)
    with pytest.raises(EvidenceError):
        attempt.seal([], {})


def test_a_planted_post_folder_is_found_before_anything_is_believed(tmp_path: Path) -> None:
    """Probe p02: verdict.txt=PASS was accepted."""
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    (attempt.root / "post").mkdir()
    (attempt.root / "post/verdict.txt").write_bytes(b"resolved\n")
    sealed = attempt.seal([], {})
    with pytest.raises(EvidenceError, match="written already"):
        sealed.write("post/verdict.txt", b"unresolved\n", "scorer")
    from cells.audit.attempt import audit_attempt

    assert "post_not_chained" in {one.kind for one in audit_attempt(sealed.root, "a").violations}


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "live/../../x", "/etc/passwd", "post/..", "live/harness/../SEAL.json"]
)
def test_a_name_that_climbs_is_refused_by_every_door(tmp_path: Path, name: str) -> None:
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    reader = LiveReader(attempt.root, ReaderContract("r", Role.DETECTOR))
    for door in (
        lambda: attempt.write(name, b"", "gatherer"),
        lambda: attempt.claim(name, "gateway"),
        lambda: reader.read(name),
        lambda: reader.prefix(name, 0),
    ):
        with pytest.raises(BoundaryViolation, match="not a safe name"):
            door()
    sealed = attempt.seal([], {})
    for late_door in (
        lambda: sealed.write(name, b"", "scorer"),
        lambda: sealed.read(name, "audit"),
        lambda: sealed.has(name),
    ):
        with pytest.raises(BoundaryViolation, match="not a safe name"):
            late_door()


@pytest.mark.parametrize("role", LIVE_ROLES)
def test_a_greedy_live_reader_gets_no_file_after_the_run_and_no_row_after_its_turn(tmp_path: Path, role: Role) -> None:
    attempt = LiveAttempt.create(tmp_path / "a")
    rows = [{"event": "turn", "segment": 1, "turn": turn, "lane": "main", "answer": "future"} for turn in range(9)]
    (attempt.root / "live/trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    greedy = ReaderContract("greedy", role, fields={"live/trace.jsonl": frozenset({"turn", "event"})}, in_branch=True)
    reader = attempt.reader(greedy)
    prefix = reader.prefix("live/trace.jsonl", 3)
    assert [row["turn"] for row in prefix.rows] == [0, 1, 2, 3]
    assert "future" not in str(prefix.rows)
    for name in (
        "post/verdict.txt",
        "post/score/preds.json",
        "live/SEAL.json",
        "run_meta.json",
        "live/harness/metrics.json",
    ):
        with pytest.raises(BoundaryViolation):
            reader.read(name)


def test_a_detector_that_tries_to_look_sees_neither_files_nor_sockets_nor_interfaces(tmp_path: Path) -> None:
    """Probe p14: a handle alone is discipline; the same process read post/ all the same. So it is another process."""
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    sealed = attempt.seal([], {})
    sealed.write("post/verdict.txt", b"resolved\n", "scorer")
    targets = [str(sealed.root / name) for name in ("post/verdict.txt", "live/SEAL.json", "start/SEAL.json")]
    tried = ["-c", PROBE, *targets, "/var/run/docker.sock", "/etc/shadow"]
    seen = {}
    for mechanism in (Mechanism("none", {}, interpreters()[0]), find_mechanism(("bwrap", "uid"))):
        ran = subprocess.run(
            mechanism.command(tried), capture_output=True, check=True, timeout=60, env=environment(mechanism.name)
        )
        seen[mechanism.name] = set(json.loads(ran.stdout)["seen"])
    assert {f"open {path}" for path in targets} <= seen.pop("none"), "without a wall it sees everything"
    (held,) = seen.values()
    assert not {one for one in held if one.startswith(("open ", "connect "))}
    assert not {f"stat {path}" for path in targets} & held


def test_a_sealed_attempt_that_was_changed_does_not_open_whatever_changed(tmp_path: Path) -> None:
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.write("start/spec.json", b"{}", "planner")
    attempt.seal_start("bwrap", {})
    attempt.append("live/noise.jsonl", b"{}\n", "sampler")
    root = attempt.seal([], {}).root
    for name in ("start/spec.json", "start/SEAL.json", "live/noise.jsonl", "live/SEAL.json"):
        content = (root / name).read_bytes()
        (root / name).chmod(0o640)
        (root / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(EvidenceError):
            open_sealed(root)
        (root / name).write_bytes(content)
    open_sealed(root)


def test_nothing_of_ours_unpacks_an_archive_by_the_library_that_follows_what_is_in_it() -> None:
    """Probes p10, p10b: extracting a cell's archive wrote devices, setuid files, links to the host, filters or not."""
    root = Path(__file__).parents[2]
    calls = {
        (path.relative_to(root).as_posix(), node.attr)
        for package in ("cells", "launchers", "scoring", "flows")
        for path in (root / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("extractall", "extract", "unpack_archive")
    }
    assert calls == set()
