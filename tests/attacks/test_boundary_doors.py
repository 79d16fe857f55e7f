"""A cell tries to talk to the model as another cell, to take over its own door, or to keep the gateway from everybody.

Naive: one server for all cells, which believes the key or the name in a request, and which one client can occupy.
Ours: identity is the socket; a cell has one, read-only; what a cell does touches its own session only.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cells.recording.wire import RequestRow, ResponseRow, read_wire
from launchers.detectors.mechanism import interpreters
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.gateway.client import GatewaySession
from launchers.gateway.contract import GatewayCell
from launchers.specimen import LIMITS, SpecimenCells
from tests.attacks.boundary import MODEL, Doors, doors, worked

pytestmark = [pytest.mark.engine, pytest.mark.attack]

TAKE_OVER = r"""
import http.client
def door(path, headers={}, body=b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'):
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(20)
    stream.connect(path)
    connection = http.client.HTTPConnection("x")
    connection.sock = stream
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json", **headers})
    return connection.getresponse().status == 200
others = {"x-assay-cell": told["victim"], "authorization": "Bearer " + told["victim"], "host": told["victim"]}
attack("its own door", lambda: door("/gw/model.sock"))
attack("its own door in another cell's name", lambda: door("/gw/model.sock", others))
attack("the victim's door by its path on the host", lambda: door(told["door"]))
beside = "/gw/../" + os.path.basename(os.path.dirname(told["door"])) + "/model.sock"
attack("the victim's door beside its own", lambda: door(beside))
attack("the gateway's control socket", lambda: connects(told["control"]) or connects("/gw/../control.sock"))
attack("other files beside its door", lambda: os.listdir("/gw") != ["model.sock"])
attack("its door taken away", lambda: os.unlink("/gw/model.sock") is None)
attack("another door in its place", lambda: socket.socket(socket.AF_UNIX).bind("/gw/other.sock") is None)
attack("its door opened to others", lambda: os.chmod("/gw/model.sock", 0o777) is None)
attack("its door mounted over", lambda: runs("mount", "-t", "tmpfs", "none", "/gw"))
attack("the gateway's environment", lambda: reads("/proc/%d/environ" % told["pid"]))
"""
HOLDS = {"its own door", "its own door in another cell's name"}
ATTACKS = [line.split('"')[1] for line in TAKE_OVER.splitlines() if line.startswith("attack(")]

EXHAUST = r"""
import threading, time
def flood(kind):
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(15)
    stream.connect("/gw/model.sock")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    if kind == "slow head":
        for byte in head * 3:
            stream.send(bytes([byte])); time.sleep(0.05)
    elif kind == "endless head":
        stream.sendall(head)
        while True:
            stream.sendall(b"x-more: " + b"y" * 8000 + b"\r\n")
    elif kind == "endless body":
        stream.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
        while True:
            stream.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
    elif kind == "a body that never comes":
        stream.sendall(head + b"content-length: 99999999999\r\n\r\n")
        time.sleep(15)
    elif kind == "deep json":
        body = b'{"model":"m","messages":' + b"[" * 200000
        stream.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        stream.recv(100)
    elif kind == "no http":
        stream.sendall(b"\x16\x03\x01" + os.urandom(60000))
        stream.recv(100)
    elif kind == "an answer never read":
        stream.sendall(head.replace(b"POST /v1/chat/completions", b"GET /v1/models") + b"\r\n")
        time.sleep(15)
def one(kind):
    try:
        flood(kind)
    except OSError:
        pass
kinds = ["slow head", "endless head", "endless body", "a body that never comes", "deep json", "no http"]
kinds.append("an answer never read")
for number in range(140):
    threading.Thread(target=one, args=(kinds[number % len(kinds)],), daemon=True).start()
open("flooding", "w").close()
time.sleep(told["seconds"])
os._exit(0)
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    engine = Engine.connect()
    root: Path = tmp_path_factory.mktemp("doors")
    with doors(SpecimenCells.on(engine, root, DockerSandboxes(engine, root))) as opened:
        yield opened
    engine.close()


def victim(bench: Doors, key: str, replies: int) -> tuple[GatewaySession, Path]:
    """The open door of another cell, and its attempt."""
    root = bench.folder / key
    (root / "live").mkdir(parents=True)
    script = bench.folder / f"{key}.jsonl"
    script.write_text('{"content": "secret reply of the victim"}\n' * replies)
    cell = GatewayCell(key=key, attempt_root=root, model=MODEL, limits=LIMITS, script=script)
    return bench.gateway.open_cell(cell), root


@pytest.fixture(scope="module")
def taken(bench: Doors) -> tuple[dict[str, bool], Path, Path]:
    """What worked, the victim's attempt, the attacker's."""
    session, root = victim(bench, "victim", 1)
    told = {
        "victim": "victim",
        "door": str(session.socket_dir / "model.sock"),
        "control": str(bench.gateway.run_dir / "control.sock"),
        "pid": bench.gateway.pid,
    }
    result = bench.run(bench.request(TAKE_OVER, told, script=[{"content": "mine"}] * 3))
    session.close()
    with closing(result.collector):
        return worked(result), root, result.sealed.root


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in HOLDS])
def test_a_cell_does_not_get(taken: tuple[dict[str, bool], Path, Path], name: str) -> None:
    assert taken[0][name] is False


def test_a_cell_reaches_its_own_model_and_is_itself_whatever_it_says(taken: tuple[dict[str, bool], Path, Path]) -> None:
    found, victims, own = taken
    assert {name for name, hit in found.items() if hit} == HOLDS
    rows = read_wire((own / "live/wire.jsonl").read_bytes()).rows
    assert sum(isinstance(row, RequestRow) for row in rows) == 2
    assert b"victim" not in (own / "live/wire.jsonl").read_bytes().replace(b'"host":"victim"', b"")
    assert not [
        row for row in read_wire((victims / "live/wire.jsonl").read_bytes()).rows if isinstance(row, RequestRow)
    ]


def test_the_kernel_says_who_connected(taken: tuple[dict[str, bool], Path, Path]) -> None:
    rows = read_wire((taken[2] / "live/wire.jsonl").read_bytes()).rows
    assert {row.peer.uid for row in rows if isinstance(row, RequestRow)} == {65532}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_host_does_not_get_through_the_door_of_a_cell(bench: Doors) -> None:
    session, _ = victim(bench, "owned", 1)
    program = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    words = ["/bin/sh", "-c", 'exec "$@"', "sh", interpreters()[-1], "-I", "-c", program]
    words.append(str(session.socket_dir / "model.sock"))
    ran = subprocess.run(words, user=12345, group=12345, extra_groups=[], capture_output=True, check=False)
    session.close()
    assert ran.returncode == 1 and b"Permission" in ran.stderr, ran.stderr


def _ask(path: Path) -> Any:
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(20)
    stream.connect(str(path))
    connection = http.client.HTTPConnection("x")
    connection.sock = stream
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_a_cell_that_floods_its_door_keeps_nobody_else_from_theirs(bench: Doors) -> None:
    session, root = victim(bench, "neighbour", 20)
    answers: list[Any] = []
    ends: list[str] = []

    def attack() -> None:
        result = bench.run(bench.request(EXHAUST, {"seconds": 4}, script=[{"content": "x"}]))
        ends.append(result.sealed.facts["ended"])
        result.collector.close()

    attacker = threading.Thread(target=attack)
    attacker.start()
    while attacker.is_alive() and len(answers) < 20:
        answers.append(_ask(session.socket_dir / "model.sock"))
        attacker.join(0.15)
    attacker.join()
    session.close()
    assert [status for status, _ in answers] == [200] * len(answers)
    assert len(answers) >= 3
    assert ends and ends[0] in ("completed", "request_limit", "harness_error")
    rows = [row for row in read_wire((root / "live/wire.jsonl").read_bytes()).rows if isinstance(row, ResponseRow)]
    assert len(rows) == len(answers), "the neighbour's record has its own exchanges and no other"
