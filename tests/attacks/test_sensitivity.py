"""Take one protection away, and at least one attack works: so its silence elsewhere means something.

The flags of containers, one by one: tests/launchers/test_hardening_witnesses.py. Here: the five walls, and the
protections of readers, doors and collection that are no flag.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import cells.attempt
from cells.artifacts import CONTRACT, Contract, ContractError, Readiness, Role, Row
from cells.artifacts.access import LiveReader, ReaderContract
from cells.artifacts.model import YES, may
from cells.artifacts.seals import refuse_changed_members
from cells.artifacts.table import live_readers
from cells.attempt import LiveAttempt, SealedAttempt, open_sealed
from cells.audit.attempt import audit_attempt
from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence.files import read_regular
from cells.sandbox import Mount
from launchers import mounts
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.hardening import Hardening
from launchers.live_request import LiveRequest
from launchers.specimen import SpecimenCells
from tests.scoring.calc_task import Bench
from tests.scoring.live_cells import live_cell

pytestmark = pytest.mark.attack
SECRET = b"secret of the host"


class RowWithoutTheWall(Row):
    """A row that may say anything."""

    def _refuse_live_readers_of_post_run(self) -> None:
        """The wall that is taken away."""


def _verdict_for_detectors(kind: type[Row]) -> Row:
    row = CONTRACT.row_for("post/verdict.txt")
    return kind(row.pattern, row.scope, row.writer, row.ready, may(detector=YES), writers=row.writers)


def test_wall_1_table() -> None:
    """The attack: a row that gives the verdict to a detector."""
    with pytest.raises(ContractError, match="ready post-run only"):
        _verdict_for_detectors(Row)
    smuggled = _verdict_for_detectors(RowWithoutTheWall)
    assert live_readers(smuggled) == (Role.DETECTOR,)
    assert Contract((smuggled,)).row_for("post/verdict.txt") is smuggled


def test_wall_2_types(tmp_path: Path) -> None:
    """The attack: post-run code is handed an attempt that is not sealed."""
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    with pytest.raises(BoundaryViolation, match="made by LiveAttempt.seal"):
        SealedAttempt(attempt.root, {"facts": {}}, CONTRACT, object())
    forged = SealedAttempt(attempt.root, {"facts": {}}, CONTRACT, cells.attempt._MAKER)
    forged.write("post/verdict.txt", b"resolved\n", "scorer")
    assert (attempt.root / "post/verdict.txt").exists() and not (attempt.root / "live/SEAL.json").exists()
    assert {one.kind for one in audit_attempt(attempt.root, "a").violations} == {"post_before_seal"}


def test_wall_3_disk(tmp_path: Path) -> None:
    """The attack: live code opens a post-run file by its path, past every reader."""
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    with pytest.raises(FileNotFoundError):
        (attempt.root / "post/verdict.txt").read_bytes()
    (attempt.root / "post").mkdir()
    (attempt.root / "post/verdict.txt").write_bytes(b"resolved\n")
    assert (attempt.root / "post/verdict.txt").read_bytes() == b"resolved\n"


@pytest.mark.engine
def test_wall_4_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: the cell writes a verdict into its attempt on the host."""
    engine = Engine.connect()
    specimens = SpecimenCells.on(engine, tmp_path, DockerSandboxes(engine, tmp_path))
    script = "mkdir -p /attempt/post; echo resolved > /attempt/post/verdict.txt; ls -d /attempt"
    with closing(specimens.shell(script)) as held:
        assert not (held.sealed.root / "post").exists()

    real = mounts.agent_spec

    def with_the_attempt(request: LiveRequest, volumes: mounts.CellVolumes, door: Path | None) -> Any:
        spec = real(request, volumes, door)
        shown = (*spec.mounts, Mount(str(request.stage), "/attempt", "directory", read_only=False))
        mounts.refuse_attempt_paths(shown, request.stage)
        request.stage.chmod(0o777)
        return replace(spec, mounts=shown)

    monkeypatch.setattr(mounts, "agent_spec", with_the_attempt)
    with pytest.raises(BoundaryViolation, match="a live cell sees none of them"):
        specimens.shell(script)
    monkeypatch.setattr(mounts, "refuse_attempt_paths", lambda mounts, root: None)
    with closing(specimens.shell(script)) as open_wide:
        assert (open_wide.sealed.root / "post/verdict.txt").read_bytes() == b"resolved\n"
    engine.close()


def test_wall_5_imports() -> None:
    """Shown in tests/architecture: a planted import of post-run code by live code fails the contracts."""
    text = (Path(__file__).parents[1] / "architecture/test_import_contracts.py").read_text()
    assert '("launchers/planted_a.py", "import scoring", "Direction")' in text


def _rows(turns: int) -> list[Mapping[str, Any]]:
    return [{"event": "turn", "segment": 1, "turn": turn, "lane": "main", "private": "x"} for turn in range(turns)]


def test_the_cut_of_the_prefix(tmp_path: Path) -> None:
    """The attack: a decision about turn 2 uses turn 5."""
    attempt = LiveAttempt.create(tmp_path / "a")
    trace = attempt.root / "live/trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in _rows(6)))
    reader = attempt.reader(ReaderContract("r", Role.DETECTOR, fields={"live/trace.jsonl": frozenset({"turn"})}))
    assert max(row["turn"] for row in reader.prefix("live/trace.jsonl", 2).rows) == 2
    assert max(json.loads(line)["turn"] for line in trace.read_text().splitlines()) == 5


def test_the_projection(tmp_path: Path) -> None:
    """The attack: a detector reads a field that its contract does not name."""
    attempt = LiveAttempt.create(tmp_path / "a")
    (attempt.root / "live/trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows(1)))
    named = ReaderContract("r", Role.DETECTOR, fields={"live/trace.jsonl": frozenset({"turn"})})
    everything = ReaderContract("r", Role.DETECTOR, fields={"live/trace.jsonl": frozenset({"turn", "private"})})
    assert "private" not in LiveReader(attempt.root, named).prefix("live/trace.jsonl", 0).rows[0]
    assert "private" in LiveReader(attempt.root, everything).prefix("live/trace.jsonl", 0).rows[0]
    with pytest.raises(ContractError):
        named.narrowed(fields={"live/trace.jsonl": {"turn", "private"}})


def test_the_readiness_of_a_row(tmp_path: Path) -> None:
    """The attack: a file that is ready after the run is read as if it stood there from the start."""
    attempt = LiveAttempt.create(tmp_path / "a")
    (attempt.root / "live/fingerprint.txt").write_bytes(b"digest")
    row = CONTRACT.row_for("live/fingerprint.txt")
    reader = ReaderContract("r", Role.CONTEXT)
    with pytest.raises(BoundaryViolation):
        LiveReader(attempt.root, reader).read("live/fingerprint.txt")
    early = replace(row, ready=frozenset({Readiness.RUN_START}), permissions=may(context=YES))
    assert LiveReader(attempt.root, reader, Contract((early,))).read("live/fingerprint.txt") == b"digest"


def test_opening_without_following(tmp_path: Path) -> None:
    """The attack: a file becomes a link between check and open (probe p03)."""
    secret, swapped = tmp_path / "secret", tmp_path / "swapped"
    secret.write_bytes(SECRET)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (tmp_path / "link").symlink_to(secret)
            os.replace(tmp_path / "link", swapped)
            (tmp_path / "plain").write_bytes(b"mine")
            os.replace(tmp_path / "plain", swapped)

    swapped.write_bytes(b"mine")
    swapper = threading.Thread(target=swap)
    swapper.start()
    naive, ours = set(), set()
    while SECRET not in naive:
        naive.add(swapped.read_bytes())
        try:
            ours.add(read_regular(swapped))
        except EvidenceError:
            continue
    stop.set()
    swapper.join()
    assert SECRET not in ours


def test_the_digests_of_the_seal(tmp_path: Path) -> None:
    """The attack: a live record is changed after the seal."""
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    attempt.append("live/noise.jsonl", b"{}\n", "sampler")
    sealed = attempt.seal([], {})
    (sealed.root / "live/noise.jsonl").chmod(0o640)
    (sealed.root / "live/noise.jsonl").write_bytes(b"[]\n")
    with pytest.raises(EvidenceError, match="changed after the seal"):
        open_sealed(sealed.root)
    with pytest.raises(EvidenceError):
        refuse_changed_members(sealed.root, "live", sealed.seal)
    assert sealed.read("live/noise.jsonl", Role.AUDIT) == b"[]\n", "whoever does not open it again believes it"


def test_the_chain_of_the_journal(tmp_path: Path) -> None:
    """The attack: a verdict is laid into post/ by somebody who never held the seal."""
    attempt = LiveAttempt.create(tmp_path / "a")
    attempt.seal_start("bwrap", {})
    sealed = attempt.seal([], {})
    (sealed.root / "post").mkdir()
    (sealed.root / "post/verdict.txt").write_bytes(b"resolved\n")
    assert open_sealed(sealed.root).read("post/verdict.txt", Role.SCORING) == b"resolved\n", (
        "the seals say nothing of it"
    )
    assert "post_not_chained" in {one.kind for one in audit_attempt(sealed.root, "a").violations}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_the_owner_of_a_door(tmp_path: Path) -> None:
    """The attack: another user of the host talks through a cell's door."""
    import socket
    import tempfile

    from launchers.detectors.mechanism import interpreters

    folder = Path(tempfile.mkdtemp(prefix="own"))
    folder.chmod(0o711)
    door = folder / "model.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(door))
        listener.listen()
        program = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        words = [interpreters()[-1], "-I", "-c", program, str(door)]
        codes = []
        for mode in (0o600, 0o666):
            door.chmod(mode)
            ran = subprocess.run(words, user=12345, group=12345, extra_groups=[], capture_output=True, check=False)
            codes.append(ran.returncode)
    door.unlink()
    folder.rmdir()
    assert codes == [1, 0]


@pytest.mark.engine
def test_a_repository_of_our_own(calc: Bench, tmp_path: Path) -> None:
    """The attack: git runs what the agent's repository says, when somebody runs git in it (here: the cell itself)."""
    evil = "sh -c 'echo x >> /tmp/pwned; cat'"
    traps = f'git config filter.evil.clean "{evil}"; echo "* filter=evil" > .gitattributes'
    naive = "git add -A; git diff --cached > /dev/null"
    script = f"{traps}; echo '# x' >> src/calc.py; {naive}; wc -l < /tmp/pwned"
    with live_cell(calc, tmp_path / "a001", script) as (sealed, _):
        said = sealed.read("live/harness.stdout.log", Role.AUDIT)
    assert int(said.split()[-1]) > 0, "the trap bites whoever runs git there"


def test_every_flag_of_a_container_has_a_witness() -> None:
    """A protection that is added to `Hardening` and to no witness would not be missed when it is gone."""
    source = (Path(__file__).parents[1] / "launchers/test_hardening_witnesses.py").read_text()
    words = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    keywords = {node.arg for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword)}
    assert {field.name for field in fields(Hardening)} <= words | keywords
