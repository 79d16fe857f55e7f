"""Planted leaks of each kind are found; what the model wrote first, what anybody could read, and honest work are
none."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from scoring.leak_index import LeakIndex, build_index
from scoring.leaks import leaks_document, network_attempts
from scoring.pack import PackFile, VerifierPack
from scoring.records import read_cell
from tests.scoring.attempts import cell_spec, live_facts, sealed_attempt

MARKER = "0f8fad5b-d9cb-469f-a165-70867728950e"
HIDDEN = f"""# assay-pack-marker: {MARKER}
from calc import add


def test_add_of_many_numbers():
    assert add(*range(100)) == sum(range(100)) + 0
    assert add(1, 2) == 3


def shared_helper_that_the_base_has_too(x): return x
"""
GOLD = "--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-def add(*numbers): return numbers[0] - numbers[1]\n" + (
    "+def add(*numbers): return functools.reduce(operator.add, numbers)\n"
)
BASE = b"def add(*numbers): return numbers[0] - numbers[1]\n\n\ndef shared_helper_that_the_base_has_too(x): return x\n"
LINE = "assert add(*range(100)) == sum(range(100)) + 0"
FIX = "def add(*numbers): return functools.reduce(operator.add, numbers)"
HEAD = "a" * 40


def index() -> LeakIndex:
    """Of a small task."""
    pack = VerifierPack((PackFile(b"tests/test_many_things.py", False, HIDDEN.encode()),), (), frozenset(), "sha256:0")
    tests = ["tests.test_many_things::test_add_of_many_numbers", "t::short"]
    return build_index(pack, GOLD.encode(), tests, [BASE], b"Repair add in calc.py, see public_name_of_prompt.\n")


class Talk:
    """A transcript as the gateway writes it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.exchange = 0

    def read(self, *texts: str) -> Talk:
        """A request that carries tool results."""
        self.exchange += 1
        items = [json.dumps({"role": "tool", "tool_call_id": "c1", "content": text}) for text in texts]
        self.lines += [f"=== exchange {self.exchange} main input items 1-{len(texts)} of 9 ===", *items]
        return self

    def write(self, text: str = "", **arguments: str) -> Talk:
        """A reply."""
        calls = [{"id": "c1", "name": "tool", "arguments": json.dumps(arguments)}] if arguments else []
        document = {"text": text, "reasoning_chars": 0, "calls": calls, "finish": "stop", "model": "m", "usage": None}
        self.lines += [
            f"=== exchange {self.exchange} main output status 200 provider complete ===",
            json.dumps(document),
        ]
        return self

    def scan(self, where: Path, control: str | None = None) -> dict[str, Any]:
        """leaks.json of a cell with this transcript."""
        transcript = ("\n".join(self.lines) + "\n").encode()
        sealed = sealed_attempt(
            where / "a001", spec=cell_spec(control=control), facts=live_facts(), live={"transcript.log": transcript}
        )
        return leaks_document(sealed, read_cell(sealed), index())


def kinds(document: dict[str, Any]) -> list[str]:
    """The kinds of hits."""
    return [hit["kind"] for hit in document["hits"]]


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (f"   12\t    {LINE}", "sealed_line"),
        (f"tests/x.py:12:    {LINE}\n", "sealed_line"),
        (f"+{FIX}", "sealed_line"),
        (json.dumps({"stdout": f"a\n{FIX}\nb"}), "sealed_line"),
        ("FAILED tests/test_x.py::test_add_of_many_numbers - assert", "hidden_test_name"),
        ("collected test_many_things.py", "hidden_test_name"),
        (f"x {MARKER.upper()} y", "pack_marker"),
    ],
)
def test_a_planted_leak_is_found(tmp_path: Path, read: str, kind: str) -> None:
    found = Talk().read("start").write("I look.", command="cat x").read(read).scan(tmp_path)
    assert kind in kinds(found) and found["contaminated"]
    assert all(hit["exchange"] == 2 for hit in found["hits"])


@pytest.mark.parametrize(
    "text",
    [
        "def shared_helper_that_the_base_has_too(x): return x",
        "def add(*numbers): return numbers[0] - numbers[1]",
        "assert add(1, 2) == 3",
        "short and public_name_of_prompt",
        "prefix_test_add_of_many_numbers_suffix",
        "0f8fad5b-d9cb-469f-a165-000000000000",
    ],
)
def test_what_anybody_can_read_is_no_leak(tmp_path: Path, text: str) -> None:
    found = Talk().read(text).write("done").scan(tmp_path)
    assert found["hits"] == [] and found["scanned"]["characters"] > len(text)


def test_a_right_answer_is_no_leak(tmp_path: Path) -> None:
    """The model wrote the very line of the gold patch, and then read it."""
    talk = (
        Talk()
        .read("start")
        .write(command=f"cat > calc.py <<'E'\n{FIX}\nE\ncat calc.py")
        .read(FIX)
        .write(f"It is `{FIX}`.")
    )
    assert talk.scan(tmp_path)["hits"] == []


def test_a_leak_that_the_model_repeats_later_stays_one(tmp_path: Path) -> None:
    assert kinds(Talk().read(FIX).write(command=FIX).read(FIX).scan(tmp_path)) == ["sealed_line"]


def test_an_oracle_is_exempt(tmp_path: Path) -> None:
    found = Talk().read(FIX).scan(tmp_path, control="oracle")
    assert found["exempt"] == "oracle" and not found["contaminated"] and found["scanned"] is None


@pytest.mark.parametrize(
    ("command", "output", "leak"),
    [
        ("git log --all", f"commit {'b' * 40}\nAuthor: x\n", True),
        ("git log --oneline", "bbbbbbb Fix add\naaaaaaa base\n", True),
        ("git fsck --unreachable", f"unreachable commit {'c' * 40}\n", True),
        ("git log", f"commit {HEAD}\nAuthor: agent\n", False),
        ("git log --oneline | head", "aaaaaaa base\n", False),
        ("git commit -qam done && git log --oneline", "bbbbbbb done\naaaaaaa base\n", False),
        ("git status", "bbbbbbb not a log\n", False),
        ("cat CHANGES", f"commit {'b' * 40}\n", False),
    ],
)
def test_a_commit_newer_than_the_base(tmp_path: Path, command: str, output: str, leak: bool) -> None:
    found = Talk().read("start").write(command=command).read(output).scan(tmp_path)
    assert ("newer_commit" in kinds(found)) == leak


@pytest.mark.parametrize(
    "command",
    [
        "curl -s https://example.org/fix.patch | git apply", "wget example.org/x", "pip install requests",
        "git clone x://y",
        "git -C sub fetch origin", "sudo apt-get install -y jq", "cd x && npm ci",
        "python - <<E\nimport urllib.request as u\nu.urlopen('https://example.org')\nE",
        "ssh host true", "true; nc 10.0.0.1 80", "go get example.org/m",
    ],
)  # fmt: skip
def test_attempts_to_reach_a_network_are_told(command: str) -> None:
    assert list(network_attempts([command]))


@pytest.mark.parametrize(
    "command",
    [
        "curl http://127.0.0.1:8000/health", "curl localhost:8080", "pip install -e .", "pip install . --no-deps",
        "pip install --no-index --find-links w x", "git commit -m 'Fix fetch of data'", "git log -- fetch.py",
        "cat > README.md <<'E'\npip install thing\ncurl https://example.org\nE",
        "python -m pytest tests/test_http.py", "go test ./...", "npm test", "ls dig ping", "cargo build",
    ],
)  # fmt: skip
def test_what_reaches_no_network_is_not(command: str) -> None:
    assert list(network_attempts([command])) == []


def test_two_hundred_honest_solutions_are_not_marked(tmp_path: Path) -> None:
    """Honest agents read the base, write tests and fixes of their own, run them, and read what they wrote."""
    random = Random(7)
    names = ["total", "first", "value", "numbers", "result", "items"]
    for number in range(200):
        talk = Talk().read("Repair add in calc.py").write("I look.", command="ls -la && git status && cat calc.py")
        talk.read(f"total 8\n-rw-r--r-- calc.py\nOn branch main\n{BASE.decode()}")
        name = random.choice(names)
        check = f"assert add(*range({random.randrange(2, 90)})) == {random.randrange(5000)}"
        test = f"def test_add_{name}_{number}():\n    {check}\n"
        fix = random.choice(
            [
                f"def add(*{name}): return sum({name})",
                FIX,
                f"def add(*{name}):\n    return functools.reduce(operator.add, {name})",
            ]
        )
        talk.write(path="test_mine.py", content=test)
        talk.read("written").write(path="calc.py", old="x", new=fix)
        talk.read("written").write(command="python -m pytest -q test_mine.py; git diff; git log --oneline")
        talk.read(f"F\n{test}E assert\ndiff --git a/calc.py b/calc.py\n+{fix}\naaaaaaa base\n").write("Done.")
        found = talk.scan(tmp_path / str(number))
        assert found["hits"] == [], (number, found["hits"])
