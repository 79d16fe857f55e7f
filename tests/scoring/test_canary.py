"""A canary fails whatever the code under test does, looks like its neighbours, and is another one every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from scoring.canary import from_template, make_canary, modules_of, nodes_of
from scoring.reports import read_report

MODULE = b'''"""A module of hidden tests."""
import pytest

LIMIT = 3


@pytest.fixture
def number():
    return 2


def test_plain(number):
    """Says something."""
    if number > LIMIT:
        return
    assert number == 2
    for other in (1, 2):
        assert other <= number, "message"


def test_returns_early(number):
    def inner():
        return number
    if inner():
        return


def test_raises():
    with pytest.raises(ValueError):
        int("x")


@pytest.mark.parametrize("value", [1, 2])
def test_of_values(value):
    assert value in (1, 2)


@pytest.mark.skip
def test_skipped():
    pass


class TestGroup:
    offset = 1

    def test_method(self, number):
        assert number + self.offset == 3

    class TestInner:
        def test_deep(self):
            assert [x for x in range(3)] == [0, 1, 2]


import unittest


class Old(unittest.TestCase):
    def setUp(self):
        self.value = 1

    def test_old(self):
        self.assertEqual(self.value, 1)
'''
TESTS = [
    "::test_plain", "::test_returns_early", "::test_raises", "::test_of_values[1]", ".TestGroup::test_method",
    ".TestGroup.TestInner::test_deep", ".Old::test_old",
]  # fmt: skip
NAMES = [f"tests.test_m{test}" for test in TESTS]


def run(where: Path, arguments: list[str]) -> dict[str, str]:
    """The report of pytest over some arguments."""
    report = where / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "--rootdir",
        str(where),
        "--junitxml",
        str(report),
    ]
    options = ["-p", "no:cacheprovider", "--import-mode=importlib"]
    environment = {"PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run([*command, *options, *arguments], cwd=where, capture_output=True, env=environment)
    return dict(read_report("pytest", report.read_bytes(), str(where)).tests)


@pytest.mark.parametrize("windows", [False, True], ids=["lf", "crlf"])
def test_every_kind_of_test_gives_a_canary_that_fails_beside_its_original(tmp_path: Path, windows: bool) -> None:
    content = MODULE.replace(b"\n", b"\r\n") if windows else MODULE
    canaries = []
    for number, test in enumerate(TESTS):
        path, name = f"m{number}/test_m.py", f"m{number}.test_m{test}"
        canary = make_canary({path.encode(): content}, [], [name], Random(number))
        assert canary.inverted and canary.pinned == name and canary.path == path.encode()
        (tmp_path / f"m{number}").mkdir()
        (tmp_path / path).write_bytes(canary.content)
        canaries.append(canary)
    everything = run(tmp_path, [])
    chosen = run(tmp_path, [alternatives[0][1] for canary in canaries for alternatives in canary.select])
    for canary in canaries:
        assert canary.results(everything) == canary.results(chosen) == {"failed"}, canary.name
        assert everything[canary.pinned or ""] == chosen[canary.pinned or ""] == "passed"
    failed = {name for name, result in everything.items() if result == "failed"}
    assert all(any(canary.name in name for canary in canaries) for name in failed)


def test_a_plain_test_is_preferred_and_the_same_seed_gives_the_same_canary() -> None:
    files = {b"tests/test_m.py": MODULE}
    first, again, other = (make_canary(files, [], [NAMES[3], NAMES[0]], Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert first.pinned == NAMES[0] and first.name.startswith("test_plain_")
    assert first.name.encode() not in MODULE


@pytest.mark.parametrize(
    "files",
    [
        {},
        {b"tests/test_m.py": b"def broken(:\n"},
        {b"tests/test_m.py": b"\xff\xfe"},
        {b"tests/test_m.py": b"import nothing_of_that_name\n"},
        {b"tests/test_m.py": b"import pytest\n\n\n@pytest.mark.xfail\ndef test_plain():\n    assert 0\n"},
    ],
)
def test_where_nothing_can_be_copied_the_canary_stands_alone(files: dict[bytes, bytes], tmp_path: Path) -> None:
    canary = make_canary(files, ["tests.test_m::test_x"], ["tests.test_m::test_plain"], Random(0))
    assert not canary.inverted and canary.path not in files
    path = tmp_path / canary.path.decode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(canary.content)
    assert canary.results(run(tmp_path, [canary.select[-1][0][1]])) == {"failed"}
    assert canary.select[0] == nodes_of("tests.test_m::test_plain")


def test_a_template_names_its_place_and_its_test() -> None:
    canary = from_template(b"// assay-canary: spec/{name}.rs\nfn {name}() { panic!() }\n", ["m::ok"], Random(0))
    assert canary.path == f"spec/{canary.name}.rs".encode() and canary.pinned == "m::ok"
    assert canary.results({f"spec::{canary.name}": "failed", f"x{canary.name}": "passed"}) == {"failed"}
    with pytest.raises(ValueError, match="assay-canary"):
        from_template(b"no place\n", [], Random(0))


def test_the_modules_of_expected_tests() -> None:
    assert modules_of([*NAMES, "::collection", "m::n"]) == {"tests.test_m", "m"}
    assert nodes_of("a.b.C::t[x::y]") == (("a/b/C.py", "a/b/C.py::t[x::y]"), ("a/b.py", "a/b.py::C::t[x::y]"),
                                          ("a.py", "a.py::b::C::t[x::y]"))  # fmt: skip
