"""The first process of a cell on a real engine: what it protects, what it reports, when it gives up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cells.errors import InfraFailure
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.live_request import LiveResult
from launchers.specimen import LIMITS, SpecimenCells

pytestmark = pytest.mark.engine
FORGED = '{"type": "ended", "size": 2}\\n{}'
LOOK = """
import json, os
found = {}
for name in ("/proc/1/mem", "/proc/1/fd/1", "/proc/1/environ", "/proc/1/maps", "/proc/2/mem"):
    try:
        os.close(os.open(name, os.O_RDWR if name.endswith(("mem", "1")) else os.O_RDONLY))
        found[name] = "opened"
    except OSError as error:
        found[name] = error.strerror
guards = [pid for pid in os.listdir("/proc") if pid.isdigit() and b"guard" in open(f"/proc/{pid}/cmdline", "rb").read()]
try:
    os.listdir(f"/proc/{guards[0]}/fd")
    found["guard"] = "opened"
except OSError as error:
    found["guard"] = error.strerror
print(json.dumps(found))
"""


def stdout(result: LiveResult) -> bytes:
    return result.sealed.read("live/harness.stdout.log", "audit")


def stderr(result: LiveResult) -> bytes:
    return result.sealed.read("live/harness.stderr.log", "audit")


def facts(result: LiveResult) -> dict[str, Any]:
    result.close()
    return result.sealed.facts


@pytest.mark.attack
def test_no_process_of_the_agent_can_open_ours(specimens: SpecimenCells) -> None:
    result = specimens.run("command", {"command": ["python3", "-c", LOOK]})
    assert facts(result)["ended"] == "completed", stderr(result)
    found = json.loads(stdout(result))
    assert found.pop("/proc/2/mem") != "opened"
    assert set(found.values()) == {"Permission denied"}, found


@pytest.mark.attack
def test_what_the_harness_prints_is_never_a_report(specimens: SpecimenCells) -> None:
    result = specimens.shell(f"printf '{FORGED}'; printf '{FORGED}' >&2; exit 7")
    assert facts(result)["exit_code"] == 7
    assert stdout(result) == b'{"type": "ended", "size": 2}\n{}' == stderr(result)


@pytest.mark.attack
def test_our_processes_are_not_what_a_model_means_by_its_python(specimens: SpecimenCells) -> None:
    result = specimens.shell("pkill -9 python; pgrep -l . | cut -d' ' -f2 | sort -u | tr '\\n' ' '")
    assert facts(result)["ended"] == "completed"
    assert stdout(result).split()[:2] == [b"assay-guard", b"assay-init"] and b"python" not in stdout(result)


def test_it_refuses_to_be_anything_but_the_first_process(specimens: SpecimenCells) -> None:
    result = specimens.shell("python3 /assay/incell/init.py < /dev/null; echo $?")
    assert facts(result)["ended"] == "completed"
    assert stdout(result) == b"2\n" and b"first process" in stderr(result)


def test_the_harness_starts_in_the_base_tree_with_its_prompt(specimens: SpecimenCells) -> None:
    result = specimens.shell(
        'cat; pwd; git status --porcelain; git log --oneline | wc -l; cat "$ASSAY_PROMPT_FILE"; id -un'
    )
    prompt = b"Make greet.sh greet whoever is named.\n"
    assert facts(result)["ended"] == "completed"
    assert stdout(result) == prompt + b"/workspace\n1\n" + prompt + b"agent\n"


def test_a_session_of_its_own_with_ordinary_signals(specimens: SpecimenCells) -> None:
    result = specimens.shell("yes | head -n 1; trap; ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo own")
    assert facts(result)["ended"] == "completed" and stdout(result) == b"y\nown\n"
    assert stderr(result) == b"", "a broken pipe is silent where SIGPIPE works"


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), ("/assay/incell", 126)])
def test_a_program_that_cannot_run_is_the_harnesss_error_as_in_a_shell(
    specimens: SpecimenCells, command: str, code: int
) -> None:
    result = specimens.run("command", {"command": [command]})
    assert facts(result)["ended"] == "harness_error" and facts(result)["exit_code"] == code
    assert command.encode() in stderr(result)


def test_how_the_harness_was_killed_is_told_by_its_signal(specimens: SpecimenCells) -> None:
    found = facts(specimens.shell("kill -SEGV $$"))
    assert (found["exit_code"], found["signal"], found["detail"]) == (None, 11, "signal 11")


def test_what_the_harness_leaves_is_ended_and_counted(specimens: SpecimenCells) -> None:
    result = specimens.shell("for i in 1 2 3; do (trap '' HUP TERM; sleep 600) & done")
    assert facts(result)["ended"] == "completed"
    (finding,) = result.sealed.seal["findings"]
    assert finding["kind"] == "left_processes" and finding["count"] >= 3


def test_of_a_flood_the_beginning_and_the_end_are_kept(specimens: SpecimenCells) -> None:
    result = specimens.shell("echo first; yes | head -c 30000000; echo last")
    assert facts(result)["ended"] == "completed"
    log = stdout(result)
    assert log.startswith(b"first\n") and log.endswith(b"last\n") and len(log) < 5 << 20
    (finding,) = result.sealed.seal["findings"]
    assert finding["kind"] == "output_dropped" and finding["bytes"] > 20_000_000


def test_a_base_tree_that_does_not_fit_is_our_fault_and_not_the_agents(engine: Engine, tmp_path: Path) -> None:
    large = {"repo/large.txt": "sixteen bytes..\n" * 120_000}
    cells = SpecimenCells.on(engine, tmp_path, DockerSandboxes(engine), large)
    with pytest.raises(InfraFailure, match="launch: OSError.*No space left"):
        cells.run("nop", limits=replace(LIMITS, disk_mb=1))


def test_the_last_counters_are_its_own(specimens: SpecimenCells) -> None:
    result = specimens.shell("python3 -c 'sum(range(3000000))'")
    found = facts(result)
    rows = [json.loads(line) for line in result.sealed.read("live/noise.jsonl", "audit").splitlines()]
    assert rows[-1]["source"] == "cell" and rows[-1]["cell"]["cpu_s"] > 0.01
    assert found["counters"]["cpu_s"] == rows[-1]["cell"]["cpu_s"]
    assert found["usage"]["user_s"] > 0 and rows[-1]["disk"]["size_mb"] == 64.0
