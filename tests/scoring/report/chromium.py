"""A headless Chromium, spoken to over its DevTools pipe: what a page asked for, said and shows."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.machine.packages import CHROMIUM, find_program

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--window-size=1280,900"),
)
_PATIENCE_S = 60.0


class Page:
    """One page of the browser. `requests` are all addresses it asked for, `complaints` all it said on its console."""

    def __init__(self, commands: int, replies: int) -> None:
        self._commands, self._replies, self._buffer = commands, replies, b""
        self._number, self._session = 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._events: list[str] = []

    def attach(self) -> None:
        """Open an empty page and listen to it."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def open(self, address: str) -> None:
        """Load an address and wait until it is loaded."""
        self._events.clear()
        self.ask("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._events:
            self._receive()

    def run(self, script: str) -> Any:
        """The value of an expression in the page; what it throws is raised."""
        reply = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            raise AssertionError(reply["exceptionDetails"])
        return reply["result"].get("value")

    def key(self, name: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        common = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        """Scroll the middle of an element into view and click on it with the mouse."""
        place = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'center'});"
            " const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def look(self, *, scheme: str = "light", media: str = "screen") -> None:
        """Choose light or dark, screen or print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        reply = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(reply["data"]))

    def printed(self) -> bytes:
        """The page as PDF, as its own print style makes it."""
        self.ask("Emulation.setEmulatedMedia", media="", features=[])
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._receive()
            if reply.get("id") == self._number:
                assert "error" not in reply, (method, reply["error"])
                return dict(reply["result"])

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._replies], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            self._buffer += os.read(self._replies, 1 << 20)
        message, _, self._buffer = self._buffer.partition(b"\0")
        document: dict[str, Any] = json.loads(message)
        self._note(document.get("method", ""), document.get("params", {}))
        return document

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(parameters)[:2000])


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser with a new profile and one empty page; it is gone at the end."""
    program = find_program(CHROMIUM.name)
    assert program, "no chromium here; the tests with marker `browser` need it"
    to_read, commands = _pipe()
    replies, to_write = _pipe()
    # The browser's pipe is descriptors 3 and 4, whatever ours are called.
    started = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write} {to_read}<&- {to_write}>&-'
    process = subprocess.Popen(
        ["bash", "-c", started, program, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(to_read, to_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile)},
    )
    os.close(to_read)
    os.close(to_write)
    try:
        page = Page(commands, replies)
        page.attach()
        yield page
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(replies)


def _pipe() -> tuple[int, int]:
    """The two ends of a pipe, both above the descriptors that the browser wants."""
    ends = os.pipe()
    moved = fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 10), fcntl.fcntl(ends[1], fcntl.F_DUPFD_CLOEXEC, 10)
    for end in ends:
        os.close(end)
    return moved
