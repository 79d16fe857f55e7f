"""The reference harness against a server that answers from a script: what it asks, what it does, how it ends."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cells.incell.agent import reference

PROGRAM = Path(reference.__file__)
Reply = tuple[int, bytes]


def say(content: str | None = None, finish: str = "stop", calls: Sequence[tuple[str, Any]] = ()) -> Reply:
    """A chat completion; the arguments of a call are JSON, or text as it is."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [_call(number, *call) for number, call in enumerate(calls)]
    answer = {"choices": [{"message": message, "finish_reason": finish}], "usage": {"prompt_tokens": 7}}
    return 200, json.dumps(answer).encode()


def call(name: str, **arguments: Any) -> Reply:
    return say(finish="tool_calls", calls=[(name, arguments)])


def error(status: int, **fields: Any) -> Reply:
    return status, json.dumps({"error": {"message": "no", **fields}}).encode()


def streamed(*deltas: dict[str, Any], done: bool = True) -> Reply:
    """A stream of deltas as server-sent events."""
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    lines = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return 200, b"".join(lines) + (b": a comment\n\ndata: [DONE]\n\n" if done else b"")


def _call(number: int, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": text}}


@dataclass
class Run:
    """How it ended, and what the server was asked."""

    code: int
    stderr: str
    requests: list[dict[str, Any]]
    trace: list[dict[str, Any]]

    def result(self, request: int = -1) -> str:
        """The newest tool result in a request."""
        return str(self.requests[request]["messages"][-1]["content"])


@dataclass
class Rig:
    """A work directory, a scripted server, and a way to run the program."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    by_tcp: bool = False

    def run(self, replies: Sequence[Reply], prompt: str = "Do it.", **settings: Any) -> Run:
        (self.root / "prompt.md").write_text(prompt)
        requests: list[dict[str, Any]] = []
        with scripted(self.root, list(replies), requests, self.by_tcp) as address:
            done = subprocess.run(
                [sys.executable, "-B", str(PROGRAM)],
                env={**self._environment(settings), **address, **self.environment},
                capture_output=True,
                timeout=60,
            )
        rows = [json.loads(line) for line in (self.root / "trace.jsonl").read_text().splitlines()]
        return Run(done.returncode, done.stderr.decode(), requests, rows)

    def _environment(self, settings: dict[str, Any]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "ASSAY_SETTINGS": json.dumps(settings),
            "ASSAY_PROMPT_FILE": str(self.root / "prompt.md"),
            "ASSAY_WORKDIR": str(self.root / "work"),
            "ASSAY_MODEL": "served",
            "ASSAY_TRACE_FILE": str(self.root / "trace.jsonl"),
        }


@contextmanager
def scripted(
    root: Path, replies: list[Reply], requests: list[dict[str, Any]], by_tcp: bool
) -> Iterator[dict[str, str]]:
    """A server that gives the replies in order, then 500; the environment that leads to it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))) | {"path": self.path})
            status, body = replies.pop(0) if replies else error(500)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "client"

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server: socketserver.BaseServer
    if by_tcp:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        address = {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1"}
    else:
        server = socketserver.ThreadingUnixStreamServer(str(root / "model.sock"), Handler)
        address = {"ASSAY_MODEL_SOCKET": str(root / "model.sock")}
    with server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield address
        server.shutdown()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    (tmp_path / "work").mkdir()
    return Rig(tmp_path)


DONE = call("done", summary="ready")


def test_it_works_with_its_tools_until_the_model_is_done(rig: Rig) -> None:
    run = rig.run(
        [
            call("write", path="src/a.txt", content="one\ntwo\n"),
            call("edit", path="src/a.txt", old="two", new="three"),
            call("read", path="src/a.txt"),
            call("bash", command="cat src/a.txt; echo err >&2; exit 3"),
            DONE,
        ]
    )
    assert run.code == 0 and "done: ready" in run.stderr
    assert (rig.root / "work/src/a.txt").read_text() == "one\nthree\n"
    assert [request["messages"][-1]["content"] for request in run.requests[1:]] == [
        "wrote 8 bytes to src/a.txt",
        "wrote 10 bytes to src/a.txt",
        "one\nthree\n",
        "one\nthree\nerr\n\n[exit 3]",
    ]
    assert [row["event"] for row in run.trace][-1] == "session_end"
    assert sum(row["event"] == "turn" for row in run.trace) == 5


def test_the_first_request_holds_prompt_suffixes_tools_and_settings(rig: Rig) -> None:
    run = rig.run([say("done")], prompt_suffix="Test it.", system_suffix="Be brief.", max_tokens=9, temperature=0.5)
    first = run.requests[0]
    assert first["path"] == "/v1/chat/completions"
    assert (first["model"], first["max_tokens"], first["temperature"]) == ("served", 9, 0.5)
    assert "stream" not in first
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["messages"][0]["content"].endswith("\n\nBe brief.")
    assert first["messages"][1]["content"] == "Do it.\n\nTest it."
    assert [tool["function"]["name"] for tool in first["tools"]] == ["bash", "read", "write", "edit", "done"]


def test_plain_text_is_an_end(rig: Rig) -> None:
    run = rig.run([say("I think it is fine.")])
    assert run.code == 0 and "plain text" in run.stderr


def test_a_reply_that_was_cut_off_is_continued_but_not_for_ever(rig: Rig) -> None:
    run = rig.run([say("so", finish="length")] * 9)
    assert run.code == 0 and len(run.requests) == 4
    assert run.requests[1]["messages"][-1] == {"role": "user", "content": reference.CONTINUE}


def test_it_reaches_its_model_over_tcp_too(rig: Rig) -> None:
    rig.by_tcp = True
    run = rig.run([say("done")])
    assert run.code == 0 and run.requests[0]["path"] == "/v1/chat/completions"


def test_a_streamed_reply_is_put_together(rig: Rig) -> None:
    pieces: list[dict[str, Any]] = [
        {"role": "assistant", "content": "let "},
        {"content": "us"},
        {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "bash", "arguments": '{"comm'}}]},
        {"tool_calls": [{"index": 1, "id": "y", "function": {"name": "done", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'and": "echo hi > f"}'}}]},
    ]
    run = rig.run([streamed(*pieces)], stream=True)
    assert run.code == 0 and run.requests[0]["stream"] is True
    assert (rig.root / "work/f").read_text() == "hi\n"


def test_a_stream_that_breaks_off_is_asked_for_again(rig: Rig) -> None:
    run = rig.run([streamed({"content": "half"}, done=False), streamed({"content": "whole"})], stream=True)
    assert run.code == 0 and len(run.requests) == 2


def test_a_busy_server_is_asked_again(rig: Rig) -> None:
    run = rig.run([error(503), error(429, code="rate_limit_exceeded"), say("fine")])
    assert run.code == 0 and len(run.requests) == 3


@pytest.mark.parametrize(
    "refusal",
    [
        error(403, type="invalid_request_error", code="turn_limit"),
        error(400, type="invalid_request_error", code="context_length_exceeded"),
        error(429, type="insufficient_quota", code=None),
    ],
)
def test_a_limit_of_the_cell_ends_it_politely_and_at_once(rig: Rig, refusal: Reply) -> None:
    run = rig.run([refusal])
    assert run.code == 0 and len(run.requests) == 1 and "limit: " in run.stderr


@pytest.mark.parametrize("refusal", [error(401, code="bad_key"), (404, b"<html>nothing here</html>"), (400, b"[]")])
def test_an_error_that_does_not_get_better_is_its_own_failure(rig: Rig, refusal: Reply) -> None:
    run = rig.run([refusal])
    assert run.code == 1 and len(run.requests) == 1


def test_what_goes_wrong_in_a_tool_is_told_to_the_model(rig: Rig) -> None:
    (rig.root / "work/twice").write_text("x x")
    run = rig.run(
        [
            say(calls=[("bash", "{not json"), ("fly", {}), ("read", {"path": "none"}), ("edit", {"path": "twice"})]),
            say(calls=[("edit", {"path": "twice", "old": "x", "new": "y"}), ("bash", "[]")]),
            DONE,
        ]
    )
    first = [message["content"] for message in run.requests[1]["messages"][-4:]]
    assert all(text.startswith("error: ") for text in first)
    assert "there is no tool 'fly'; there are bash, read, write, edit, done" in first[1]
    second = [message["content"] for message in run.requests[2]["messages"][-2:]]
    assert "occurs 2 times" in second[0] and second[1].startswith("error: ")
    assert run.code == 0


def test_output_is_bounded_and_says_what_is_missing(rig: Rig) -> None:
    run = rig.run([call("bash", command="head -c 300000 /dev/zero | tr '\\0' a; echo end"), DONE])
    assert len(run.result()) < reference.OUTPUT_CAP + 100
    assert "[283620 bytes left out]" in run.result() and run.result().endswith("end\n\n[exit 0]")


def test_a_command_that_does_not_end_is_killed_with_everything_it_started(rig: Rig) -> None:
    run = rig.run([call("bash", command="sleep 987 & echo $! > pid; wait"), DONE], bash_timeout_s=0.3)
    assert "[killed after 0.3 s]" in run.result()
    pid = int((rig.root / "work/pid").read_text())
    assert _is_gone(pid)


def test_a_child_in_the_background_does_not_hold_up_the_reply(rig: Rig) -> None:
    run = rig.run([call("bash", command="sleep 986 & echo $! > pid; echo started"), DONE], bash_timeout_s=20)
    os.kill(int((rig.root / "work/pid").read_text()), signal.SIGKILL)
    assert run.result() == "started\n\n[exit 0]"


def test_a_picture_is_sent_with_the_prompt(rig: Rig) -> None:
    (rig.root / "a.png").write_bytes(b"png")
    rig.environment["ASSAY_IMAGE_FILES"] = str(rig.root / "a.png")
    run = rig.run([say("seen")])
    text, picture = run.requests[0]["messages"][1]["content"]
    assert text == {"type": "text", "text": "Do it."}
    assert picture["image_url"]["url"] == "data:image/png;base64,cG5n"


def test_it_stays_small() -> None:
    assert len(PROGRAM.read_text().splitlines()) <= 300


def _is_gone(pid: int) -> bool:
    probe: Callable[[], bytes] = lambda: Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]  # noqa: E731
    for _ in range(2000):
        try:
            if probe() in (b"Z", b"X"):
                return True
        except OSError:
            return True
    return False
