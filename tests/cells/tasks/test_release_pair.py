"""Release pairs: which files are tests, what is gold, what a changelog says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.errors import InputFileError
from cells.tasks.base_state import BaseEntry
from cells.tasks.changelog import entries_between
from cells.tasks.release_pair import PairsFile, below_top, is_metadata, is_test, licence_of, split_pair
from cells.toml_file import load_toml


def files(**contents: bytes) -> dict[bytes, BaseEntry]:
    """Files by name; `__` in a keyword is `/`, `_py` at its end `.py`."""
    named = {name.replace("__", "/").replace("_py", ".py").encode(): text for name, text in contents.items()}
    return {path: BaseEntry(path, 0o100644, content) for path, content in named.items()}


@pytest.mark.parametrize(
    "path",
    [
        "tests/a.py",
        "tests/data/x.bin",
        "pkg/test/y",
        "testing/z",
        "test_a.py",
        "pkg/a_test.py",
        "tests.py",
        "a/conftest.py",
    ],
)
def test_test_files(path: str) -> None:
    assert is_test(path.encode())


@pytest.mark.parametrize("path", ["pkg/contest.py", "latest.py", "pkg/tested.py", "docs/test.rst", "attests/a", "test"])
def test_files_that_only_look_like_tests(path: str) -> None:
    assert not is_test(path.encode())


def test_hidden_tests_are_those_of_the_new_release_and_dropped_ones_are_named() -> None:
    old = files(pkg_py=b"1", tests__old_py=b"1", tests__both_py=b"1")
    new = files(pkg_py=b"2", tests__both_py=b"2", tests__data=b"x")
    split = split_pair(old, new)
    assert split.base == old
    assert {path: entry.content for path, entry in split.hidden.items()} == {
        b"tests/both.py": b"2",
        b"tests/data": b"x",
    }
    assert split.dropped == (b"tests/old.py",)
    assert (split.old_other, split.new_other) == (files(pkg_py=b"1"), files(pkg_py=b"2"))


def test_metadata_that_only_a_build_reads_is_aside() -> None:
    assert is_metadata(b"PKG-INFO")
    assert not is_metadata(b"pkg.egg-info/PKG-INFO")


def test_a_source_distribution_has_one_folder_at_its_top() -> None:
    entry = BaseEntry(b"p-1/a", 0o100644, b"")
    assert below_top([entry], "p-1.tar.gz") == {b"a": BaseEntry(b"a", 0o100644, b"")}
    with pytest.raises(InputFileError, match="one folder"):
        below_top([entry, BaseEntry(b"q/a", 0o100644, b"")], "p-1.tar.gz")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("License: MIT", "MIT"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: BSD License", "BSD License"),
        ("License-Expression: Apache-2.0\nLicense: other", "Apache-2.0"),
        ("Name: x", None),
    ],
)
def test_licence(head: str, expected: str | None) -> None:
    metadata = BaseEntry(b"PKG-INFO", 0o100644, f"{head}\n\nLicense: in the text\n".encode())
    assert licence_of({b"PKG-INFO": metadata}) == expected


def test_two_pairs_with_one_task_are_refused(tmp_path: Path) -> None:
    pair = '[[pair]]\nname = "p"\nold = "1"\nnew = "2"\n'
    (tmp_path / "pairs.toml").write_text(pair + pair.replace('"1"', '"1.5"'))
    with pytest.raises(InputFileError, match="'p-2'"):
        load_toml(tmp_path / "pairs.toml", PairsFile)


def test_a_pair_with_an_unknown_key_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "pairs.toml").write_text('[[pair]]\nname = "p"\nold = "1"\nnew = "2"\nurl = "x"\n')
    with pytest.raises(InputFileError) as caught:
        load_toml(tmp_path / "pairs.toml", PairsFile)
    assert caught.value.line == 5


UNDERLINED = (
    "History\n-------\n\n1.2.0 - 2023-03-09\n------------------\n\n* New.\n\n1.1.0 - 2022\n------------\n\n* Old.\n"
)
BULLETS = "Notes\n\n- 1.2.0 Names may hold a\n  dash\n- 1.1.0 Old\n"
MARKDOWN = "# Changes\n\n## v1.2.0 (today)\n\n### Fixed\n- New in 3.11.4 too\n\n## v1.1.0\n- Old\n"
RELEASES = "Release 1.2.0 (Nov 14)\n----\n\n* Keyword.\n\nRelease 1.1.0 (Jul)\n----\n\n* Old.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNDERLINED, "1.2.0 - 2023-03-09\n\n* New."),
        (BULLETS, "- 1.2.0 Names may hold a\n  dash"),
        (MARKDOWN, "## v1.2.0 (today)\n\n### Fixed\n- New in 3.11.4 too"),
        (RELEASES, "Release 1.2.0 (Nov 14)\n\n* Keyword."),
    ],
)
def test_the_entry_of_a_release(text: str, expected: str) -> None:
    assert entries_between({"CHANGELOG.rst": text}, "1.1.0", "1.2.0") == expected


def test_entries_of_the_releases_between_belong_to_it() -> None:
    text = "1.3\n===\nc\n\n1.2\n===\nb\n\n1.1\n===\na\n"
    assert entries_between({"NEWS": text}, "1.1", "1.3") == "1.3\nc\n\n1.2\nb"


def test_a_file_named_for_it_comes_before_the_readme() -> None:
    found = entries_between({"README.md": "1.2.0 readme\n", "docs/history.rst": "1.2.0 history\n"}, "1.1.0", "1.2.0")
    assert found == "1.2.0 history"


def test_no_entry_is_no_entry() -> None:
    assert entries_between({"CHANGES": "1.1.0\n* old\n", "setup.py": "1.2.0\n"}, "1.1.0", "1.2.0") is None
