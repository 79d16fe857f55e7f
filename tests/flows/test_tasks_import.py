"""Import of release pairs: what a task directory gets, what is refused, and that nothing of a source is run."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from cells.errors import EnvironmentFault, InputFileError
from cells.tasks import FrozenTask, load_task
from cells.tasks.base_state import BaseEntry
from cells.tasks.image import TaskImage
from cells.tasks.release_pair import Files
from flows.task_import import Imported, Measured, import_releases, require_counts
from flows.task_import_patch import difference
from flows.task_import_sdist import fetch_sdist
from flows.task_measure import measurer
from launchers.engine import Engine
from launchers.image_build import ImageBuildFailed

PAIR = '[[pair]]\nname = "calc"\nold = "1.0"\nnew = "1.1"\n'
RELEASES = {
    "1.0": {"calc.py": "a = 1\n", "tests/test_calc.py": "old\n", "PKG-INFO": "License: MIT\nVersion: 1.0\n\n"},
    "1.1": {
        "calc.py": "a = 2\n",
        "tests/test_calc.py": "new\n",
        "CHANGES": "1.1\n* a is 2\n",
        "PKG-INFO": "License: MIT\nVersion: 1.1\n\n",
    },
}
MEASURED = Measured(frozenset({"t::stays", "t::breaks"}), frozenset({"t::stays", 't::turns[a "b"]'}), 1.0)


def fetch(name: str, version: str) -> Files:
    """The two releases above."""
    return {
        path.encode(): BaseEntry(path.encode(), 0o100644, text.encode()) for path, text in RELEASES[version].items()
    }


def run(tmp_path: Path, pairs: str = PAIR, measured: Measured = MEASURED) -> tuple[list[Imported], list[str]]:
    """Import; what came of it and what was said."""
    (tmp_path / "pairs.toml").write_text(pairs)
    said: list[str] = []
    results = import_releases(tmp_path / "pairs.toml", tmp_path / "out", fetch, lambda task: measured, said.append)
    return results, said


def test_a_pair_becomes_a_task_directory(tmp_path: Path) -> None:
    results, said = run(tmp_path)
    assert results == [Imported("calc-1.1", "imported", 1, 1)]
    assert said == ["[1/1] calc-1.1: imported, f2p 1, p2p 1"]
    task = load_task(tmp_path / "out/calc-1.1")
    assert (task.repository, task.file.licence) == ("calc", "MIT")
    assert (task.file.verify.f2p, task.file.verify.p2p) == (('t::turns[a "b"]',), ("t::stays",))
    prompt = (task.directory / "prompt.md").read_text()
    assert "* a is 2" in prompt
    assert (task.directory / "repo/tests/test_calc.py").read_text() == "old\n"
    assert (task.directory / "sealed/tests/tests/test_calc.py").read_text() == "new\n"


def test_nothing_of_the_new_release_is_in_the_base(tmp_path: Path) -> None:
    run(tmp_path)
    base = {
        path.relative_to(tmp_path / "out/calc-1.1/repo").as_posix(): path
        for path in (tmp_path / "out/calc-1.1/repo").rglob("*")
    }
    assert {name: path.read_text() for name, path in base.items() if path.is_file()} == RELEASES["1.0"]


def test_the_gold_patch_turns_the_old_files_into_the_new_ones_but_for_tests_and_metadata(tmp_path: Path) -> None:
    run(tmp_path)
    tree = tmp_path / "out/calc-1.1/repo"
    patch = (tmp_path / "out/calc-1.1/sealed/gold.patch").read_bytes()
    subprocess.run(["git", "apply", "-"], input=patch, cwd=tree, check=True)
    assert (tree / "calc.py").read_text() == "a = 2\n"
    assert (tree / "CHANGES").read_text() == RELEASES["1.1"]["CHANGES"]
    assert b"test_calc" not in patch
    assert b"PKG-INFO" not in patch


def test_counts_that_differ_are_not_imported_and_end_with_an_environment_fault(tmp_path: Path) -> None:
    results, _ = run(tmp_path, PAIR + "f2p = 2\np2p = 1\n")
    assert (results[0].state, (tmp_path / "out/calc-1.1").exists()) == ("differs", False)
    with pytest.raises(EnvironmentFault, match="the file says f2p 2, p2p 1; measured here 1 and 1") as caught:
        require_counts(results)
    assert caught.value.exit_code == 3


def test_a_pair_in_which_no_test_turns_is_no_task(tmp_path: Path) -> None:
    results, _ = run(tmp_path, measured=Measured(frozenset({"t::a"}), frozenset({"t::a"}), 1.0))
    assert results[0].detail == "no hidden test turns from failing to passing"


def test_a_pair_whose_tests_take_too_long_is_no_task(tmp_path: Path) -> None:
    results, _ = run(tmp_path, measured=Measured(frozenset(), frozenset({"t::a"}), 41.0))
    assert "must be 3 times" in results[0].detail


def test_a_finished_pair_is_kept(tmp_path: Path) -> None:
    run(tmp_path)
    before = (tmp_path / "out/calc-1.1/task.toml").stat().st_mtime_ns
    results, _ = run(tmp_path, measured=Measured(frozenset(), frozenset(), 0.0))
    assert results == [Imported("calc-1.1", "kept", 1, 1)]
    assert (tmp_path / "out/calc-1.1/task.toml").stat().st_mtime_ns == before


def test_a_measurement_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "pairs.toml").write_text(PAIR)

    def broken(task: FrozenTask) -> Measured:
        raise EnvironmentFault("no engine")

    with pytest.raises(EnvironmentFault):
        import_releases(tmp_path / "pairs.toml", tmp_path / "out", fetch, broken, print)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.engine
def test_an_image_that_cannot_be_built_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "pairs.toml").write_text(PAIR)

    def build(task: FrozenTask, engine: Engine) -> TaskImage:
        raise ImageBuildFailed("pip could not fetch the recipe's wheels", b"no route")

    with pytest.raises(EnvironmentFault, match=r"calc-1.1: image_build: pip could not fetch") as caught:
        import_releases(
            tmp_path / "pairs.toml", tmp_path / "out", fetch, measurer(Engine.connect(), build), lambda line: None
        )
    assert caught.value.exit_code == 3


def test_a_file_of_pairs_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        import_releases(tmp_path / "nothing.toml", tmp_path / "out", fetch, lambda task: MEASURED, print)


def entry(path: bytes, content: bytes = b"", mode: int = 0o100644) -> BaseEntry:
    """A file of a release."""
    return BaseEntry(path, mode, content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([entry(b"a", b"1\r\n2")], [entry(b"a", b"1\n2\n")]),
        ([entry(b"a", b"\0\1")], [entry(b"a", b"\0\2")]),
        ([], [entry(b"new dir/\xc3\xa9", b"x")]),
        ([entry(b"a", b"x")], []),
        ([entry(b"a", b"x")], [entry(b"a", b"x", 0o100755)]),
        ([entry(b"a", b"x")], [entry(b"a", b"b", 0o120000)]),
        (
            [entry(b".gitattributes", b"* binary\n"), entry(b"a", b"1\n")],
            [entry(b".gitattributes", b"* text\n"), entry(b"a", b"2\n")],
        ),
    ],
    ids=["line ends", "binary", "new", "removed", "mode", "link", "attributes"],
)
def test_a_difference_applies_to_the_old_files_and_gives_the_new_ones(
    tmp_path: Path, old: list[BaseEntry], new: list[BaseEntry]
) -> None:
    def laid(entries: list[BaseEntry], root: Path) -> None:
        for one in entries:
            path = root / one.path.decode()
            path.parent.mkdir(parents=True, exist_ok=True)
            if one.mode == 0o120000:
                path.symlink_to(one.content.decode())
            else:
                path.write_bytes(one.content)
                path.chmod(one.mode & 0o777)

    tree = tmp_path / "tree"
    tree.mkdir()
    laid(old, tree)
    patch = difference({one.path: one for one in old}, {one.path: one for one in new})
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch, cwd=tree, check=True)
    found = {
        path.relative_to(tree).as_posix().encode(): (
            path.is_symlink(),
            path.is_symlink() or path.read_bytes(),
            path.lstat().st_mode & 0o100,
        )
        for path in tree.rglob("*")
        if path.is_symlink() or path.is_file()
    }
    wanted = {
        one.path: (one.mode == 0o120000, one.mode == 0o120000 or one.content, 0o100 if one.mode != 0o100644 else 0)
        for one in new
    }
    assert found == wanted


def test_no_difference_is_no_patch() -> None:
    assert difference({b"a": entry(b"a")}, {b"a": entry(b"a")}) == b""


SETUP = """\
import pathlib
pathlib.Path({marker!r}).write_text("ran")
from setuptools import setup
setup(name="calc", version="1.0")
"""


@pytest.mark.parametrize("pyproject", ["", '[build-system]\nrequires = ["nobody-has-this"]\nbuild-backend = "evil"\n'])
def test_fetching_a_source_distribution_runs_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pyproject: str
) -> None:
    marker = tmp_path / "marker"
    contents = {
        "calc-1.0/setup.py": SETUP.format(marker=str(marker)),
        "calc-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: calc\nVersion: 1.0\n",
        "calc-1.0/evil.py": f"import pathlib\npathlib.Path({str(marker)!r}).write_text('ran')\n",
        **({"calc-1.0/pyproject.toml": pyproject + 'backend-path = ["."]\n'} if pyproject else {}),
    }
    _archive(tmp_path / "index/calc-1.0.tar.gz", contents)
    _offline(monkeypatch, tmp_path / "index")
    files = fetch_sdist("calc", "1.0")
    assert files[b"setup.py"].content.decode() == contents["calc-1.0/setup.py"]
    assert not marker.exists()


def test_a_source_that_is_not_in_the_index_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index").mkdir()
    _offline(monkeypatch, tmp_path / "index")
    with pytest.raises(EnvironmentFault, match="package index") as caught:
        fetch_sdist("calc", "9.9")
    assert caught.value.exit_code == 3


def _archive(path: Path, contents: dict[str, str]) -> None:
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as tar:
        for name, text in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))


def _offline(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
