"""Small parts of the trusted programs: names, frames, packs, the log of a run, and that nothing of the host is needed
by them."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cells.incell.trusted as trusted
from cells.incell.trusted.candidate_run import Log
from cells.incell.trusted.frames import BadFrame, read_frame, write_frame
from cells.incell.trusted.names import decode_name, encode_name
from cells.incell.trusted.pack import PackWriter, object_id

FOLDER = Path(trusted.__file__).parent


@given(st.binary(max_size=60))
def test_a_name_has_one_form_and_comes_back(name: bytes) -> None:
    text = encode_name(name)
    assert text.isascii() and text.isprintable() and decode_name(text) == name


@pytest.mark.parametrize("text", ["%4", "%zz", "%61", "%2f", "a\\b", "é", "a%0a"])
def test_another_spelling_of_a_name_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        decode_name(text)


@given(st.binary(max_size=300), st.text(max_size=20))
def test_a_frame_comes_back(body: bytes, word: str) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        write_frame(writing, {"type": "x", "word": word}, body)
        os.close(writing)
        frame = read_frame(stream, 1000)
        assert frame == ({"type": "x", "word": word, "size": len(body)}, body)
        assert read_frame(stream, 1000) is None


@pytest.mark.parametrize(
    "line",
    [
        b"{\n", b"[]\n", b'{"size": -1}\n', b'{"size": 99}\n', b'{"size": "1"}\n', b'{"size": 5}\nab',
        b'{"a": ' + b"1" * (2 << 20),
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused(line: bytes) -> None:
    with pytest.raises(BadFrame):
        read_frame(io.BytesIO(line), 10)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.binary(max_size=400), max_size=4))
def test_git_reads_what_the_pack_writer_writes(contents: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "GIT_DIR": folder, "GIT_CONFIG_GLOBAL": "/dev/null"}
        subprocess.run(["git", "init", "-q", "--bare", folder], env=environment, check=True)
        pack = PackWriter(f"{folder}/objects/pack")
        for content in contents:
            pack.add(object_id(b"blob", content), b"blob", content)
        path = pack.close()
        assert (path is None) == (not contents)
        if path is not None:
            subprocess.run(["git", "index-pack", path], env=environment, check=True, capture_output=True)
            for content in contents:
                oid = object_id(b"blob", content)
                found = subprocess.run(
                    ["git", "cat-file", "blob", oid], env=environment, check=True, capture_output=True
                )
                assert found.stdout == content


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(2, 100))
def test_a_log_keeps_its_beginning_and_its_end(pieces: list[bytes], cap: int) -> None:
    log, whole = Log(cap), b"".join(pieces)
    for piece in pieces:
        log.add(piece)
    kept = bytes(log.head) + bytes(log.tail)
    assert len(kept) <= cap and len(kept) + log.dropped == len(whole)
    assert whole.startswith(bytes(log.head)) and whole.endswith(bytes(log.tail))
    if log.dropped == 0:
        assert log.content() == whole


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_trusted_programs_import_the_standard_library_and_each_other_alone(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").split(".")[0] in sys.stdlib_module_names | {"__future__"}
