"""A cell leaves artifacts that are no plain files: links, pipes, sockets, devices, sparse, deep and oddly named ones.

Naive: the host walks, opens and digests what the container left, follows the link, hangs on the pipe, reads a terabyte
of zeros, loses what lies too deep without a word, or dies of a name. Ours: a collector reads it, and says what it left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cells.artifacts.members import member_names
from cells.audit.attempt import audit_attempt
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.live_request import LiveResult
from launchers.specimen import SpecimenCells

pytestmark = [pytest.mark.engine, pytest.mark.attack]
PLANT = r"""
import os, socket, stat
secret = SECRET
os.makedirs("record")
os.chdir("record")
open("plain.log", "w").write("plain\n")
os.symlink(secret, "link-out.log")
os.symlink("/etc/passwd", "link-etc.log")
os.symlink("plain.log", "link-in.log")
os.symlink("nowhere", "dangling.log")
os.symlink("..", "up")
os.mkfifo("pipe.log")
socket.socket(socket.AF_UNIX).bind("socket.log")
os.link("plain.log", "hard.log")
try:
    os.mknod("device.log", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
except PermissionError:
    pass
with open("sparse.log", "w") as stream:
    os.truncate("sparse.log", 40 << 20)
try:
    os.truncate("sparse.log", 1 << 40)
except OSError as error:
    open("refused.log", "w").write(error.strerror + "\n")
os.chmod("plain.log", 0o4755)
odd = (b"bad\xff", b"new\nline", b"tab\t", b"quote\"", b"back\\slash", b"-n", b" ", b"per%41cent", b"\xe2\x80\xae")
for name in [one + b".log" for one in (*odd, b"long" + b"x" * 240)]:
    open(name, "wb").write(name)
here = os.open(".", os.O_DIRECTORY)
for level in range(3000):
    os.mkdir("d", dir_fd=here)
    below = os.open("d", os.O_DIRECTORY, dir_fd=here)
    os.close(here)
    here = below
os.close(os.open("bottom.log", os.O_CREAT | os.O_WRONLY, dir_fd=here))
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveResult]:
    engine = Engine.connect()
    root: Path = tmp_path_factory.mktemp("artifacts")
    secret = tmp_path_factory.mktemp("host") / "secret"
    secret.write_text("SECRET-OF-THE-HOST")
    cells = SpecimenCells.on(engine, root, DockerSandboxes(engine, root))
    program = PLANT.replace("SECRET", repr(str(secret)), 1)
    result = cells.run("command", {"command": ["python3", "-c", program], "gather": ["record/**"]})
    with closing(result.collector):
        yield result
    engine.close()


@pytest.fixture(scope="module")
def gathered(planted: LiveResult) -> dict[str, bytes]:
    root = planted.sealed.root / "live/harness/workdir/record"
    return {name: (root / name).read_bytes() for name in member_names(root)}


@pytest.fixture(scope="module")
def left_out(planted: LiveResult) -> dict[str, str]:
    found: list[dict[str, Any]] = planted.sealed.seal["findings"]
    return {one["name"].removeprefix("record/"): one["reason"] for one in found if one["kind"] == "not_gathered"}


def test_the_cell_ended_well_and_its_plain_file_is_there(planted: LiveResult, gathered: dict[str, bytes]) -> None:
    assert planted.sealed.facts["ended"] == "completed"
    assert gathered["plain.log"] == b"plain\n"


@pytest.mark.parametrize("name", ["link-out.log", "link-etc.log", "link-in.log", "dangling.log"])
def test_a_link_is_left_out_and_said_never_followed(
    name: str, gathered: dict[str, bytes], left_out: dict[str, str]
) -> None:
    assert name not in gathered
    assert "link" in left_out[name]


def test_no_byte_of_the_host_came_through_a_link(planted: LiveResult, gathered: dict[str, bytes]) -> None:
    assert not [name for name, content in gathered.items() if b"SECRET-OF-THE-HOST" in content or b"root:" in content]


@pytest.mark.parametrize(("name", "kind"), [("pipe.log", "fifo"), ("socket.log", "socket")])
def test_a_special_file_is_left_out_and_nobody_waits_for_it(
    name: str, kind: str, gathered: dict[str, bytes], left_out: dict[str, str]
) -> None:
    assert name not in gathered
    assert kind in left_out[name]


def test_a_device_cannot_be_made(gathered: dict[str, bytes], left_out: dict[str, str]) -> None:
    assert "device.log" not in gathered and "device.log" not in left_out


def test_a_hard_link_becomes_two_files_of_one_link_each(planted: LiveResult, gathered: dict[str, bytes]) -> None:
    assert gathered["hard.log"] == b"plain\n"
    for name in ("hard.log", "plain.log"):
        status = (planted.sealed.root / "live/harness/workdir/record" / name).stat()
        assert status.st_nlink == 1
        assert status.st_mode & 0o7777 == 0o440


def test_a_file_of_a_terabyte_is_refused_in_the_cell_and_a_large_one_is_left_out(
    gathered: dict[str, bytes], left_out: dict[str, str]
) -> None:
    assert gathered["refused.log"] == b"File too large\n"
    assert "sparse.log" not in gathered
    assert "allowed" in left_out["sparse.log"]


def test_every_odd_name_has_a_safe_one_of_its_own(gathered: dict[str, bytes], left_out: dict[str, str]) -> None:
    odd = {content for name, content in gathered.items() if content.endswith(b".log")}
    assert odd == {
        b"bad\xff.log",
        b"new\nline.log",
        b"tab\t.log",
        b'quote".log',
        b"back\\slash.log",
        b"-n.log",
        b" .log",
        b"per%41cent.log",
        b"\xe2\x80\xae.log",
    } | ({b"long" + b"x" * 240 + b".log"} if not any("long" in name for name in left_out) else set())
    assert all(name.isprintable() and name.isascii() for name in gathered)


def test_what_lies_too_deep_is_said_and_not_lost_in_silence(left_out: dict[str, str]) -> None:
    assert [name for name, reason in left_out.items() if "too_deep" in reason or "deep" in reason]


def test_the_sealed_attempt_holds_plain_files_only(planted: LiveResult) -> None:
    audit = audit_attempt(planted.sealed.root, "a")
    assert audit.ok, audit.violations
