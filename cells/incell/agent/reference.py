"""The reference harness: a tool-calling loop over OpenAI chat completions with bash, read, write, edit and done.

Standard library only, Python 3.9 or later. Configured by environment: ASSAY_SETTINGS (JSON, its keys are in
launchers/harnesses/reference.py), ASSAY_PROMPT_FILE, ASSAY_WORKDIR, ASSAY_MODEL, ASSAY_IMAGE_FILES, ASSAY_TRACE_FILE,
and ASSAY_MODEL_SOCKET (a unix socket) or OPENAI_BASE_URL. Ends with 0 when the model is done, stops in plain text, or
meets a limit of the cell; with 1 after an error that it cannot handle.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

SYSTEM = """You are an engineer at work in a repository. Your working directory is its root. Use the tools to look
around, change files and run commands; there is no network. Make the smallest change that does what is asked, check it,
and call done with one sentence on what you did."""
CONTINUE = "Your reply was cut off by its length limit. Go on, in smaller steps."
OUTPUT_CAP = 16 * 1024
TRIES, LONGEST_WAIT_S, ANSWER_TIMEOUT_S, MAX_CONTINUES = 6, 30.0, 1800.0, 3
# How servers name the end of what a cell may use, and a request that is too long (error.code or error.type).
LIMITS = ("limit", "context_length_exceeded", "budget", "insufficient_quota", "stopped")
RETRIED = (408, 409, 425, 429, 500, 502, 503, 504, 529)


def tool(name: str, what: str, **parameters: str) -> dict[str, Any]:
    """A function in the words of the protocol; every parameter is a required string."""
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": what, "parameters": schema}}


TOOLS = [
    tool("bash", "Run a shell command; returns its output and exit code.", command="the command"),
    tool("read", "Read a text file.", path="its path"),
    tool("write", "Create or replace a file.", path="its path", content="the whole content"),
    tool("edit", "Replace text that occurs exactly once in a file.", path="its path", old="old text", new="new text"),
    tool("done", "Say that the work is finished.", summary="one sentence"),
]


class Stop(Exception):
    """The end of the work; `code` is the exit status."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class Tools:
    """The tools, in the work directory."""

    def __init__(self, workdir: str, bash_timeout_s: float) -> None:
        self.workdir, self.bash_timeout_s = workdir, bash_timeout_s

    def call(self, name: str, arguments: str) -> str:
        """The result of a call; what went wrong is a result too."""
        known: dict[str, Callable[..., str]]
        known = {"bash": self.bash, "read": self.read, "write": self.write, "edit": self.edit, "done": self.done}
        if name not in known:
            return f"error: there is no tool {name!r}; there are {', '.join(known)}"
        try:
            return known[name](**json.loads(arguments or "{}"))
        except (ValueError, TypeError, OSError) as error:
            return f"error: {type(error).__name__}: {error}"

    def bash(self, command: str) -> str:
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [shell, "-c", command], cwd=self.workdir, stdin=-3, stdout=pipe, stderr=-2, start_new_session=True
        )
        output, late = self._output(process)
        end = f"killed after {self.bash_timeout_s:g} s" if late else f"exit {process.wait()}"
        return f"{output}\n[{end}]"

    def _output(self, process: subprocess.Popen[bytes]) -> tuple[str, bool]:
        assert process.stdout is not None
        head, tail, total = b"", b"", 0
        deadline = time.monotonic() + self.bash_timeout_s
        while True:
            over = process.poll() is not None
            ready, _, _ = select.select(
                [process.stdout], [], [], 0.1 if over else 0.5
            )  # background children may hold it
            content = os.read(process.stdout.fileno(), 65536) if ready else None
            if content:
                total += len(content)
                head, tail = _keep(head, tail, content)
            if (over and not content) or time.monotonic() > deadline:
                break
            if content == b"":  # it closed its output and works on in silence
                time.sleep(0.02)
        late = process.poll() is None and time.monotonic() > deadline
        if late:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
        left_out = total - len(head) - len(tail)
        middle = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return (head + middle + tail).decode("utf-8", "replace"), late

    def read(self, path: str) -> str:
        with open(self._path(path), "rb") as stream:
            head, tail = _keep(b"", b"", stream.read(1 << 20))
        return (head + (b"\n[...]\n" + tail if tail else b"")).decode("utf-8", "replace")

    def write(self, path: str, content: str) -> str:
        os.makedirs(os.path.dirname(self._path(path)), exist_ok=True)
        with open(self._path(path), "w", encoding="utf-8", newline="") as stream:
            stream.write(content)
        return f"wrote {len(content.encode())} bytes to {path}"

    def edit(self, path: str, old: str, new: str) -> str:
        with open(self._path(path), encoding="utf-8", newline="") as stream:
            content = stream.read()
        if not old or content.count(old) != 1:
            return f"error: the old text must occur exactly once in {path}; it occurs {content.count(old)} times"
        return self.write(path, content.replace(old, new))

    def done(self, summary: str = "") -> str:
        raise Stop(0, f"done: {summary}")

    def _path(self, path: str) -> str:
        return os.path.join(self.workdir, path)


def _keep(head: bytes, tail: bytes, content: bytes) -> tuple[bytes, bytes]:
    room = OUTPUT_CAP // 2 - len(head)
    return head + content[:room], (tail + content[max(room, 0) :])[-(OUTPUT_CAP // 2) :]


class Model:
    """The model behind chat completions."""

    def __init__(self, settings: dict[str, Any], environment: dict[str, str]) -> None:
        self.settings, self.environment, self.wait_s = settings, environment, 0.0

    def reply(self, messages: list[dict[str, Any]]) -> tuple[dict[str, Any], str, Any]:
        """The next message, its finish reason and the usage. Stop at limits and at what does not get better."""
        why = ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(min(LONGEST_WAIT_S, max(self.wait_s, 0.5 * 2**attempt)))
            try:
                return self._ask(messages)
            except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
                why = f"{type(error).__name__}: {error}"
        raise Stop(1, f"the model did not answer in {TRIES} tries: {why}")

    def _ask(self, messages: list[dict[str, Any]]) -> tuple[dict[str, Any], str, Any]:
        connection, path = self._connection()
        try:
            headers = {"Content-Type": "application/json", "Authorization": "Bearer unused"}
            connection.request("POST", path, json.dumps(self._body(messages)).encode(), headers)
            response = connection.getresponse()
            if response.status != 200:
                self._refused(response.status, response.read(1 << 20), response.getheader("Retry-After", ""))
            if self.settings.get("stream"):
                return _joined(_events(response))
            answer = json.loads(response.read())
            choice = answer["choices"][0]
            return choice["message"], choice.get("finish_reason") or "stop", answer.get("usage")
        finally:
            connection.close()

    def _body(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        model = self.environment.get("ASSAY_MODEL", "model")
        body: dict[str, Any] = {"model": model, "messages": messages, "tools": TOOLS}
        given = {key: self.settings.get(key) for key in ("max_tokens", "temperature")}
        body.update({key: value for key, value in given.items() if value is not None})
        if self.settings.get("stream"):
            body.update(stream=True, stream_options={"include_usage": True})
        return body

    def _connection(self) -> tuple[http.client.HTTPConnection, str]:
        if not self.environment.get("ASSAY_MODEL_SOCKET"):
            base = urllib.parse.urlsplit(self.environment["OPENAI_BASE_URL"])
            return http.client.HTTPConnection(base.netloc, timeout=ANSWER_TIMEOUT_S), f"{base.path}/chat/completions"
        connection = http.client.HTTPConnection("model")
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(ANSWER_TIMEOUT_S)
        connection.sock.connect(self.environment["ASSAY_MODEL_SOCKET"])
        return connection, "/v1/chat/completions"

    def _refused(self, status: int, body: bytes, retry_after: str) -> None:
        text = body.decode("utf-8", "replace")
        try:
            error = json.loads(text)["error"]
            name = f"{error.get('code') or ''} {error.get('type') or ''}".strip()
        except (ValueError, KeyError, TypeError, AttributeError):
            name = ""
        if any(word in name for word in LIMITS) and "rate_limit" not in name:
            raise Stop(0, f"limit: {name}")
        if status not in RETRIED:
            raise Stop(1, f"the model's server answered {status}: {text[:500]}")
        self.wait_s = float(retry_after) if retry_after.isdigit() else 0.0
        raise OSError(f"{status}: {text[:500]}")


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        if line.startswith(b"data:"):
            content = line[5:].strip()
            if content == b"[DONE]":
                return
            yield json.loads(content)
    raise OSError("the stream ended before it was done")


def _joined(events: Iterator[dict[str, Any]]) -> tuple[dict[str, Any], str, Any]:
    text, calls, finish, usage = "", {}, "stop", None  # type: str, dict[int, dict[str, Any]], str, Any
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            text += delta.get("content") or ""
            finish = choice.get("finish_reason") or finish
            for part in delta.get("tool_calls") or []:
                empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(part.get("index", 0), empty)
                call["id"] = part.get("id") or call["id"]
                for key in ("name", "arguments"):
                    call["function"][key] += (part.get("function") or {}).get(key) or ""
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    return ({**message, "tool_calls": [calls[key] for key in sorted(calls)]} if calls else message), finish, usage


def _first_messages(settings: dict[str, Any], environment: dict[str, str]) -> list[dict[str, Any]]:
    with open(environment["ASSAY_PROMPT_FILE"], encoding="utf-8", errors="replace") as stream:
        prompt = stream.read()
    system = "\n\n".join(part for part in (SYSTEM, settings.get("system_suffix")) if part)
    prompt = "\n\n".join(part for part in (prompt, settings.get("prompt_suffix")) if part)
    pictures = [_picture(path) for path in environment.get("ASSAY_IMAGE_FILES", "").split(":") if path]
    content: Any = [{"type": "text", "text": prompt}, *pictures] if pictures else prompt
    return [{"role": "system", "content": system}, {"role": "user", "content": content}]


def _picture(path: str) -> dict[str, Any]:
    with open(path, "rb") as stream:
        coded = base64.b64encode(stream.read()).decode("ascii")
    kind = os.path.splitext(path)[1].lstrip(".").lower().replace("jpg", "jpeg")
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{coded}"}}


def work(settings: dict[str, Any], environment: dict[str, str], note: Callable[..., None]) -> None:
    """Talk and act until Stop."""
    model = Model(settings, environment)
    tools = Tools(environment["ASSAY_WORKDIR"], float(settings.get("bash_timeout_s") or 60.0))
    messages, continues, turn = _first_messages(settings, environment), 0, 0
    while True:
        message, finish, usage = model.reply(messages)
        messages.append(message)
        calls = message.get("tool_calls") or []
        note("turn", turn=turn, finish=finish, usage=usage, tool_calls=len(calls))
        if not calls and (finish != "length" or continues >= MAX_CONTINUES):
            raise Stop(0, f"plain text, finish {finish}")
        if not calls:
            continues += 1
            messages.append({"role": "user", "content": CONTINUE})
        for call in calls:
            name, arguments = call["function"]["name"], call["function"].get("arguments") or "{}"
            result = tools.call(name, arguments)
            note("tool_call", turn=turn, name=name, result_bytes=len(result))
            messages.append({"role": "tool", "tool_call_id": call.get("id"), "content": result})
        turn += 1


def main() -> int:
    """Run, leave a trace, and say how it ended."""
    environment = dict(os.environ)
    with open(environment.get("ASSAY_TRACE_FILE", os.devnull), "a", encoding="utf-8") as trace:

        def note(event: str, **fields: Any) -> None:
            trace.write(json.dumps({"event": event, **fields}) + "\n")
            trace.flush()

        note("session_start", harness="reference", model=environment.get("ASSAY_MODEL"))
        try:
            work(json.loads(environment.get("ASSAY_SETTINGS", "{}")), environment, note)
        except Stop as stop:
            note("session_end", exit=stop.code, why=str(stop))
            print(stop, file=sys.stderr)
            return stop.code
    return 1


if __name__ == "__main__":
    sys.exit(main())
