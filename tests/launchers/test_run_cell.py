"""The story of a live cell on scripted containers: its order, its files, and what is left when any step fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cells.attempt import open_sealed
from cells.design.cell import ArmContent, CellSpec
from cells.design.study_model import TighterLimits
from cells.errors import EvidenceError, InfraFailure, Interrupted
from cells.outcome import Ended
from cells.sandbox import Exit, Frame
from cells.tasks.frozen import LiveTask, PromptImage
from cells.tasks.image import TaskImage
from launchers.gateway.contract import GatewayCell, SessionStatus, SessionTotals
from launchers.harnesses import check_settings
from launchers.live_request import LiveRequest, LiveResult, LiveTools
from launchers.run_cell import run_live
from launchers.scripted_sandbox import Replies, ScriptedSandboxes
from launchers.specimen import LIMITS

KEY = "sk-planted-0123456789"
IMAGE = TaskImage("t", "sha256:1", "sha256:r", "/workspace", "head-c", "head-t", "base-c", "base-t")
TASK = LiveTask("t", b"Mend it.\n", "/workspace", TighterLimits(), ())
READY = Frame({"type": "ready", "entries": 3, "copy_s": 0.1, "protected": True})
REPORT = {
    "exit_code": 0,
    "signal": None,
    "broken": None,
    "usage": {"user_s": 0.1},
    "left_processes": 2,
    "output": {"stdout": {"bytes": 9, "dropped": 4}},
    "counters": {"cpu_s": 0.2, "oom_kills": 0},
    "disk": {"size_mb": 64.0, "free_mb": 0.0, "free_inodes": 9},
    "wall_s": 1.0,
}
RECORD = b'{"event": "turn", "tool_calls": 0, "usage": null}\n'
Said = Iterable[Frame | Exit]


def exited(code: int = 0, *, engine_changed: bool = False) -> Exit:
    return Exit(code, oom_killed=False, killed_by_us=None, engine_changed=engine_changed)


def agent_that(*said: Frame | Exit) -> Callable[[], Replies]:
    """A first process that gets ready and then says this."""
    return lambda: Replies(answers={"run": lambda frame: (READY, *said)})


def reporting(**changes: Any) -> tuple[Frame, Exit]:
    return Frame({"type": "ended"}, json.dumps(REPORT | changes).encode()), exited()


def collector_with(files: Mapping[str, bytes]) -> Callable[[], Replies]:
    def gather(request: Frame) -> Said:
        for name, content in files.items():
            yield Frame({"type": "file", "root": "/records", "name": name}, content)
        yield Frame({"type": "skipped", "root": "/records", "name": "link", "reason": "link"})
        yield Frame({"type": "gathered"})

    return lambda: Replies(answers={"gather": gather})


@dataclass
class Door:
    """A gateway with one session: it writes its records as the real one does, and says what the test wants."""

    used: dict[str, Any] = field(default_factory=dict)
    cells: list[GatewayCell] = field(default_factory=list)
    socket_dir: Path = Path("/run/gw/c1")
    closed: int = 0

    def open_cell(self, cell: GatewayCell) -> Door:
        self.cells.append(cell)
        for name in ("wire.jsonl", "trace.jsonl", "transcript.log", "usage.jsonl"):
            (cell.attempt_root / "live" / name).write_bytes(b"")
        return self

    def status(self) -> SessionStatus:
        return SessionStatus(1, 1, 1, 5, Decimal(0), 0.0, 0.0, 9, None, None, None, None, False, False, None)

    def close(self) -> SessionTotals:
        self.closed += 1
        empty: dict[str, Any] = dict.fromkeys(SessionTotals.__dataclass_fields__)
        empty |= {name: 0 for name, kind in SessionTotals.__annotations__.items() if kind in ("int", "float")}
        return SessionTotals(**(empty | {"stop_requested": False, "context_refused": False} | self.used))


@dataclass
class Cell:
    """One cell on scripted containers."""

    root: Path
    agent: Callable[[], Replies] = field(default_factory=lambda: agent_that(*reporting()))
    collector: Callable[[], Replies] = field(default_factory=lambda: collector_with({"reference.trace.jsonl": RECORD}))
    door: Door = field(default_factory=Door)
    fail: Callable[[str], None] = lambda operation: None
    stop: threading.Event = field(default_factory=threading.Event)
    task: LiveTask = TASK
    phases: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sandboxes = ScriptedSandboxes(
            {"agent": lambda: self.agent(), "collector": lambda: self.collector()}, lambda done: self.fail(done)
        )

    @property
    def stage(self) -> Path:
        return self.root / "stage"

    def run(self, harness: str = "nop", settings: Mapping[str, Any] | None = None, **more: Any) -> LiveResult:
        model = {"name": "m", "provider": "openai", "base_url": "http://user:pass@host/v1?key=1", "model": "served"}
        arm = ArmContent("secret-arm-name", harness, model if harness == "reference" else None, 99, {})
        arm = replace(arm, settings=check_settings(harness, settings or {}))
        spec = CellSpec("study", "t", "sha256:t", "sha256:r", arm, LIMITS, 1)
        request = LiveRequest(spec, self.task, IMAGE, "a001", self.stage, **more)
        tools = LiveTools(self.sandboxes, self.door, self.stop, self.phases.append, {"KEY": KEY})
        return run_live(request, tools)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


def test_the_order_of_the_story(cell: Cell) -> None:
    seen_at_start: list[bool] = []

    def look(operation: str) -> None:
        if operation == "start agent":
            seen_at_start.append((cell.stage / "start/SEAL.json").exists())
            assert not (cell.stage / "live/SEAL.json").exists()

    cell.fail = look
    result = cell.run("reference")
    assert seen_at_start == [True], "start/ is sealed before the agent starts"
    assert cell.sandboxes.record == [
        "create volume",
        "create volume",
        "create collector",
        "start collector",
        "create agent",
        "start agent",
        "remove agent",
    ]
    assert cell.phases == ["prepare", "launch", "run", "seal"]
    assert cell.door.closed == 1
    result.collector.close()
    result.collector.close()
    assert cell.sandboxes.record[-3:] == ["remove collector", "remove volume", "remove volume"]
    assert cell.sandboxes.left() == []


def test_the_collector_is_not_asked_before_the_agent_is_gone(cell: Cell) -> None:
    gathered_after: list[str] = []
    inner = cell.collector()

    def gather(request: Frame) -> Said:
        gathered_after.extend(cell.sandboxes.record)
        return inner.answers["gather"](request)

    cell.collector = lambda: Replies(answers={"gather": gather})
    cell.run("reference").collector.close()
    assert gathered_after[-1] == "remove agent"


def test_a_sealed_attempt_has_every_required_file_and_its_facts(cell: Cell) -> None:
    result = cell.run("reference")
    again = open_sealed(cell.stage)
    assert again.names() == result.sealed.names()
    assert {
        "start/spec.json",
        "start/plan.json",
        "start/reservation.json",
        "start/prompt.txt",
        "start/contracts/contract.json",
        "start/run_manifest.env",
        "start/container.id",
        "start/session.json",
        "start/server_meta.json",
        "live/wire.jsonl",
        "live/trace.jsonl",
        "live/fingerprint.txt",
        "live/transcript.log",
        "live/usage.jsonl",
        "live/harness.stdout.log",
        "live/noise.jsonl",
        "live/.solver/state.json",
        "live/harness/reference.trace.jsonl",
    } <= set(again.names())
    facts = again.facts
    assert (facts["ended"], facts["exit_code"], facts["harness"]) == ("completed", 0, "reference")
    assert facts["base"] == {
        "head_commit": "head-c",
        "head_tree": "head-t",
        "base_commit": "base-c",
        "base_tree": "base-t",
        "image_id": "sha256:1",
    }
    assert facts["exposure"] == ["harness_files", "gateway_socket", "harness_record"]
    assert {"prepare", "launch", "run", "seal", "run_s", "active_s", "waited_s", "copy_s"} <= set(facts["timings"])
    assert [finding["kind"] for finding in again.seal["findings"]] == [
        "left_processes",
        "output_dropped",
        "disk_full",
        "not_gathered",
        "harness_record_differs",
    ]


def test_the_gateway_is_told_who_may_come_and_what_is_allowed(cell: Cell) -> None:
    cell.run("reference").collector.close()
    (opened,) = cell.door.cells
    assert (opened.peer_uid, opened.input_limit, opened.limits) == (65532, 99, LIMITS)
    assert opened.attempt_root == cell.stage and opened.key.endswith("--a001")
    assert opened.provenance["base_url"] == "http://host/v1"
    assert "pass" not in json.dumps(opened.provenance)


def test_a_cell_without_a_model_has_no_door_and_an_empty_record(cell: Cell) -> None:
    result = cell.run("nop")
    assert cell.door.cells == [] and result.sealed.facts["budget"] is None
    assert result.sealed.read("live/wire.jsonl", "audit") == b""
    assert result.sealed.facts["exposure"] == ["harness_files"]


def test_no_secret_reaches_a_file(cell: Cell) -> None:
    cell.collector = collector_with({"session.json": b'{"key": "' + KEY.encode() + b'"}'})
    output = Frame({"type": "output", "stream": "stdout"}, b"key " + KEY.encode())
    cell.agent = agent_that(output, *reporting())
    result = cell.run("reference")
    assert result.sealed.read("live/harness/session.json", "audit") == b'{"key": "[removed:KEY]"}'
    files = [path.read_bytes() for path in cell.stage.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in content for content in files)


def test_a_user_in_a_url_stands_in_no_file_that_the_launcher_makes(cell: Cell) -> None:
    cell.run("reference").collector.close()
    # spec.json is the cell's identity as planned: whoever plans refuses such a URL.
    made = [path for path in cell.stage.rglob("*") if path.is_file() and path.name != "spec.json"]
    assert not any(b"user:pass" in path.read_bytes() for path in made)


def test_the_gold_patch_goes_to_the_oracle_and_into_no_file(cell: Cell) -> None:
    heard: list[bytes] = []

    def listen(frame: Frame) -> Said:
        heard.append(frame.body)
        return ()

    inner = cell.agent()
    cell.agent = lambda: Replies(answers={**inner.answers, "stdin": listen})
    patch = b"diff --git a/x b/x\n+unmistakable\n"
    cell.run("oracle", oracle_patch=patch).collector.close()
    assert heard == [patch]
    assert not any(b"unmistakable" in path.read_bytes() for path in cell.stage.rglob("*") if path.is_file())


def test_nothing_that_a_cell_sees_names_arm_study_or_stage(cell: Cell) -> None:
    heard: list[bytes] = []

    def listen(frame: Frame) -> Said:
        heard.append(json.dumps(frame.header).encode() + frame.body)
        return (READY, *reporting()) if frame.type == "run" else ()

    cell.agent = lambda: Replies(answers=dict.fromkeys(("file", "stdin", "run"), listen))
    cell.run("command", {"command": ["ls"]}).collector.close()
    everything = b"".join(heard) + repr([one.spec.command for one in cell.sandboxes.containers]).encode()
    assert not any(word in everything for word in (b"secret-arm-name", b"study", b"a001", bytes(cell.root)))


def test_pictures_of_the_task_are_handed_in_and_recorded(cell: Cell) -> None:
    cell.task = replace(TASK, images=(PromptImage("shot.png", b"\x89PNG"),))
    result = cell.run("reference")
    (row,) = json.loads(result.sealed.read("start/task_images.json", "audit"))["images"]
    assert (row["name"], row["media_type"], row["bytes"]) == ("shot.png", "image/png", 4)
    assert result.sealed.read("start/task_images/shot.png", "audit") == b"\x89PNG"


def test_what_the_planner_hands_over_wins(cell: Cell) -> None:
    given = {"start/plan.json": b'{"v":1}', "start/contracts/extra.json": b"{}"}
    result = cell.run("nop", start_files=given)
    assert result.sealed.read("start/plan.json", "audit") == b'{"v":1}'
    assert result.sealed.has("start/contracts/extra.json") and result.sealed.has("start/contracts/contract.json")


def test_a_limit_that_the_gateway_met_is_how_it_ended(cell: Cell) -> None:
    cell.door.used = {"limit_hit": Ended.TOKEN_LIMIT}
    assert cell.run("reference").sealed.facts["ended"] == "token_limit"


OPERATIONS = [
    "create volume",
    "create collector",
    "start collector",
    "create agent",
    "start agent",
    "remove agent",
]


@pytest.mark.fault
@pytest.mark.parametrize("operation", OPERATIONS)
def test_whatever_fails_everything_that_was_made_is_removed(cell: Cell, operation: str) -> None:
    failed: list[str] = []

    def fail(done: str) -> None:
        if done == operation and not failed:
            failed.append(done)
            raise InfraFailure("engine_refused", done)

    cell.fail = fail
    with pytest.raises(InfraFailure, match="engine_refused"):
        cell.run("reference")
    assert failed == [operation] and cell.sandboxes.left() == []
    assert cell.door.closed == len(cell.door.cells)


@pytest.mark.fault
@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (agent_that(exited(137)), "killed"),
        (agent_that(exited(137, engine_changed=True)), "engine_lost"),
        (agent_that(Frame({"type": "ended"}, b"junk"), exited()), "bad_frame"),
        (lambda: Replies(answers={"run": lambda frame: (exited(1),)}), "launch"),
        (lambda: Replies(opening=(exited(1),)), "launch"),
    ],
)
def test_a_lost_attempt_is_sealed_as_lost_and_nothing_is_left(
    cell: Cell, agent: Callable[[], Replies], reason: str
) -> None:
    cell.agent = agent
    with pytest.raises(InfraFailure) as caught:
        cell.run("nop")
    assert caught.value.reason == reason
    facts = open_sealed(cell.stage).facts
    assert facts["ended"] == "infra_lost" and facts["detail"].startswith(reason)
    assert cell.sandboxes.left() == []


@pytest.mark.fault
def test_a_failure_that_the_gateway_tells_at_the_end_loses_the_cell(cell: Cell) -> None:
    cell.door.used = {"failure": "script_exhausted", "failure_detail": "after row 3"}
    with pytest.raises(InfraFailure, match="script_exhausted: after row 3"):
        cell.run("reference")
    assert open_sealed(cell.stage).facts["ended"] == "infra_lost"
    assert cell.sandboxes.left() == []


@pytest.mark.fault
@pytest.mark.parametrize("answer", [Frame({"type": "error", "detail": "no"}), Frame({"type": "sing"}), exited(1)])
def test_a_collector_that_fails_loses_the_cell(cell: Cell, answer: Frame | Exit) -> None:
    cell.collector = lambda: Replies(answers={"gather": lambda frame: (answer,)})
    with pytest.raises(InfraFailure):
        cell.run("reference")
    assert cell.sandboxes.left() == []


@pytest.mark.fault
def test_a_stopped_study_leaves_an_unsealed_attempt_and_nothing_on_the_engine(cell: Cell) -> None:
    cell.stop.set()
    with pytest.raises(Interrupted):
        cell.run("nop")
    with pytest.raises(EvidenceError):
        open_sealed(cell.stage)
    assert cell.sandboxes.left() == []


@pytest.mark.fault
def test_an_arm_with_a_model_needs_a_gateway(cell: Cell) -> None:
    cell.door = None  # type: ignore[assignment]
    with pytest.raises(InfraFailure, match="gateway_lost"):
        cell.run("reference")
    assert cell.sandboxes.left() == []


def test_names_that_a_cell_gave_its_files_cannot_leave_their_folder(cell: Cell) -> None:
    cell.collector = collector_with({"../../../start/x": b"1", "/etc/passwd": b"2", "a/./b": b"3", "ok.txt": b"4"})
    result = cell.run("reference")
    gathered = [name for name in result.sealed.names() if name.startswith("live/harness/")]
    assert gathered == ["live/harness/ok.txt"]
    assert sum(finding["kind"] == "not_gathered" for finding in result.sealed.seal["findings"]) == 4
