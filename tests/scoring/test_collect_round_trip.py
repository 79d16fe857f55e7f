"""Base + collected patch == tree, for everything that agents do to a tree; what no patch can hold is said, never lost
in silence."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scoring.collected import status_text
from scoring.patch import join, sections_of
from tests.scoring.collecting import (
    Base,
    Collector,
    applied,
    fingerprint,
    gather_answer,
    make_git_base,
    running_collector,
)
from tests.scoring.mutations import EMPTY, IGNORED, MUTATIONS, git, make_base, put


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_git_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "tree"
    make_base(root)
    return root


@pytest.fixture
def tree(template: Path, tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "tree"
    shutil.copytree(template, root, symlinks=True)
    yield root
    subprocess.run(["chmod", "-R", "u+rwX", str(root)], check=True)
    subprocess.run(["rm", "-rf", str(root)], check=True)


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_base_and_patch_make_the_tree(name: str, tree: Path, base: Base, collector: Collector, tmp_path: Path) -> None:
    MUTATIONS[name](tree)
    answer = collector.collect(tree, base.git, base.tree)
    assert answer.ends["patch"]["complete"] and answer.ends["patch"]["round_trip"]["ok"]
    assert (answer.facts.tree == base.tree) == (name in EMPTY) == (answer.patch == b"")
    assert join(sections_of(answer.patch, answer.facts.changes)) == answer.patch
    if name != "too_deep":
        assert fingerprint(applied(base, answer.patch, tmp_path)) == fingerprint(tree)


def test_nothing_that_the_tree_names_is_run(tree: Path, base: Base, collector: Collector) -> None:
    trap = Path("/tmp/assay-trap-was-run")
    trap.unlink(missing_ok=True)
    for name in ("attributes_filter", "attributes_eol"):
        MUTATIONS[name](tree)
    put(tree, ".git/hooks/post-index-change", b"#!/bin/sh\ntouch /tmp/assay-trap-was-run\n", 0o755)
    git(tree, "config", "--local", "core.pager", "touch /tmp/assay-trap-was-run")
    collector.collect(tree, base.git, base.tree)
    assert not trap.exists()


@pytest.mark.parametrize("name", ["nested_repo", "git_file_redirect", "git_in_capitals", "gitmodules_is_a_link"])
def test_what_git_refuses_is_left_out_and_listed(name: str, tree: Path, base: Base, collector: Collector) -> None:
    MUTATIONS[name](tree)
    left_out = collector.collect(tree, base.git, base.tree).facts.left_out
    assert [entry.reason for entry in left_out] == ["git", "git"]
    assert {entry.path for entry in left_out} - {".git"}


def test_special_files_and_what_is_too_deep_are_counted(tree: Path, base: Base, collector: Collector) -> None:
    MUTATIONS["fifo_beside"](tree)
    MUTATIONS["too_deep"](tree)
    facts = collector.collect(tree, base.git, base.tree).facts
    assert facts.left_out_counts == {"git": 1, "fifo": 2, "too_deep": 1}


def test_hard_links_are_content_and_counted(tree: Path, base: Base, collector: Collector) -> None:
    MUTATIONS["hard_links"](tree)
    assert collector.collect(tree, base.git, base.tree).facts.hard_linked == 2


def test_ignored_means_ignored_by_the_base(tree: Path, base: Base, collector: Collector) -> None:
    put(tree, ".gitignore", b"*\n")
    MUTATIONS["ignored_new"](tree)
    MUTATIONS["new_untracked"](tree)
    changes = collector.collect(tree, base.git, base.tree).facts.changes
    assert {change.path for change in changes if change.ignored} == {"out/result.bin", "session.log"}
    assert len([change for change in changes if change.ignored]) == IGNORED["ignored_new"]


def test_status_is_one_line_a_change_whatever_the_names(tree: Path, base: Base, collector: Collector) -> None:
    for name in ("name_tab_newline", "delete", "ignored_new", "mode_dropped", "fifo_beside"):
        MUTATIONS[name](tree)
    (tree / "src/calc.py").unlink(missing_ok=True)
    lines = status_text(collector.collect(tree, base.git, base.tree).facts).decode("ascii").splitlines()
    assert lines == [
        "!! out/result.bin",
        "!! session.log",
        " D src/calc.py",
        "?? src/t%09ab%0Aline.py",
        " M tools/go.sh",
        "-- .git (git)",
        "-- part.gitignore (fifo)",
        "-- src/pipe (fifo)",
    ]


@pytest.mark.parametrize(
    ("cap", "value", "word"),
    [("changes", 3, "changes"), ("changed_bytes", 1000, "changed_bytes"), ("patch_bytes", 500, "patch_bytes")],
)
def test_a_patch_over_a_cap_is_none_and_says_which(
    cap: str, value: int, word: str, tree: Path, base: Base, collector: Collector
) -> None:
    MUTATIONS["many_files"](tree)
    answer = collector.collect(tree, base.git, base.tree, **{cap: value})
    assert not answer.ends["patch"]["complete"] and answer.ends["patch"]["reason"] == word
    assert answer.ends["tree"]["complete"]


def test_names_that_would_fill_a_listing_pass_the_cap_on_changes(tree: Path, base: Base, collector: Collector) -> None:
    folder = "/".join(["\x01" * 240] * 3)
    (tree / folder).mkdir(parents=True)
    for number in range(1800):
        os.symlink("\x02" * 3000, tree / folder / ("\x01" * 240 + str(number)))
    answer = collector.collect(tree, base.git, base.tree)
    assert answer.facts.over_cap == answer.ends["patch"]["reason"] == "changes"
    assert len(answer.facts.changes) == 100 and answer.facts.changes_total == 1800


def test_too_many_entries_end_the_listing_and_say_so(tree: Path, base: Base, collector: Collector) -> None:
    MUTATIONS["many_files"](tree)
    answer = collector.collect(tree, base.git, base.tree, walk={"entries": 50})
    assert answer.facts.over_cap == "entries"
    assert answer.ends["patch"]["reason"] == answer.ends["tree"]["reason"] == "entries"


def test_a_huge_sparse_file_is_not_read(tree: Path, base: Base, collector: Collector) -> None:
    with open(tree / "src/sparse", "wb") as file:
        file.truncate(1 << 40)
    answer = collector.collect(tree, base.git, base.tree)
    assert answer.facts.over_cap == "changed_bytes"
    assert answer.ends["tree"]["reason"] == "tree_bytes"


def test_the_archive_holds_the_tree_and_is_the_same_twice(tree: Path, base: Base, collector: Collector) -> None:
    MUTATIONS["name_not_utf8"](tree)
    put(tree, "x" * 120 + "/" + "y" * 120, b"long\n")
    os.symlink("z" * 200, tree / "far")
    first, second = (collector.collect(tree, base.git, base.tree) for _ in range(2))
    assert first.tree == second.tree
    with tarfile.open(fileobj=io.BytesIO(first.tree), encoding="utf-8", errors="surrogateescape") as archive:
        members = {os.fsencode(member.name): member for member in archive}
        assert members[b"far"].linkname == "z" * 200
        assert members[b"src/\xe9\xff\x80.py"].size == len(b"x = 1\n")
        assert members[b"tools/go.sh"].mode == 0o755
        assert not any(name.split(b"/")[0] == b".git" for name in members)
        long = archive.extractfile(members[b"x" * 120 + b"/" + b"y" * 120])
        assert long is not None and long.read() == b"long\n"


def test_a_bad_request_is_answered_and_the_next_one_served(tree: Path, base: Base, collector: Collector) -> None:
    collector.ask({"type": "collect", "root": "/nonexistent", "base_git": str(base.git), "base_tree": base.tree})
    assert collector.frame()[0]["type"] == "error"
    collector.ask({"type": "dance"})
    assert collector.frame()[0]["type"] == "error"
    assert collector.collect(tree, base.git, base.tree).patch == b""


def test_gather_sends_declared_regular_files_only(tree: Path, collector: Collector) -> None:
    put(tree, "logs/a/run.jsonl", b"one\n")
    put(tree, "logs/b.jsonl", b"two\n")
    put(tree, "logs/big.jsonl", b"x" * 100)
    os.symlink("/etc/passwd", tree / "logs/c.jsonl")
    os.link(tree / "logs/b.jsonl", tree / "twin")
    os.mkfifo(tree / "logs/d.jsonl")
    frames = gather_answer(
        collector,
        {"files": [{"root": str(tree), "pattern": "logs/**/*.jsonl"}], "caps": {"file_bytes": 50}},
    )
    files = {header["name"]: (header["nlink"], body) for header, body in frames if header["type"] == "file"}
    assert files == {"logs/a/run.jsonl": (1, b"one\n"), "logs/b.jsonl": (2, b"two\n")}
    skipped = {header["name"]: header["reason"] for header, _ in frames if header["type"] == "skipped"}
    assert skipped == {
        "logs/c.jsonl": "link", "logs/d.jsonl": "fifo", "logs/big.jsonl": "100 bytes, allowed 50"
    }  # fmt: skip


@pytest.mark.parametrize("pattern", ["../x", "/etc/*", "a/../b", "a//b", ""])
def test_gather_refuses_patterns_that_leave_the_root(pattern: str, tree: Path, collector: Collector) -> None:
    (answer,) = gather_answer(collector, {"files": [{"root": str(tree), "pattern": pattern}]})
    assert answer[0]["type"] == "error" and "BadPattern" in answer[0]["detail"]


_NAMES = st.binary(min_size=1, max_size=6).map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"0"))
_SAFE_NAMES = _NAMES.filter(lambda name: name not in (b".", b"..") and name.lower() != b".git")
_PATHS = st.lists(_SAFE_NAMES, min_size=1, max_size=4).map(b"/".join)
_CONTENTS = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"a\n", b"b\r\n", b"c", b"\n", b"\0", b"diff --git a/x b/x\n"]), max_size=8).map(
        b"".join
    ),
)
_LEAVES = st.one_of(
    st.tuples(st.just("file"), _CONTENTS, st.booleans()),
    st.tuples(
        st.just("link"), st.binary(min_size=1, max_size=20).filter(lambda target: b"\0" not in target), st.just(False)
    ),
)


Leaves = dict[bytes, tuple[str, bytes, bool]]


def _without_clashes(leaves: Leaves) -> Leaves:
    kept: Leaves = {}
    for path, leaf in leaves.items():
        parts = path.split(b"/")
        above = {b"/".join(parts[:length]) for length in range(1, len(parts))}
        if not above & kept.keys() and not any(other.startswith(path + b"/") for other in kept):
            kept[path] = leaf
    return kept


_TREES = given(
    removed=st.sets(st.sampled_from(["src", "manual", "tools/go.sh", "shortcut", "assets"])),
    leaves=st.dictionaries(_PATHS, _LEAVES, max_size=6),
)
_QUIET = [HealthCheck.function_scoped_fixture]


@settings(max_examples=50, deadline=None, suppress_health_check=_QUIET)
@_TREES
def test_any_tree_makes_the_round_trip(
    removed: set[str], leaves: Leaves, base: Base, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _round_trip(removed, leaves, base, collector, tmp_path_factory)


@pytest.mark.full
@settings(max_examples=600, deadline=None, suppress_health_check=_QUIET)
@_TREES
def test_six_hundred_trees_make_the_round_trip(
    removed: set[str], leaves: Leaves, base: Base, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _round_trip(removed, leaves, base, collector, tmp_path_factory)


def _round_trip(
    removed: set[str], leaves: Leaves, base: Base, collector: Collector, factory: pytest.TempPathFactory
) -> None:
    where = factory.mktemp("any")
    root = where / "tree"
    subprocess.run(["cp", "-a", str(base.pristine), str(root)], check=True)
    for name in removed:
        subprocess.run(["rm", "-rf", str(root / name)], check=True)
    for path, (kind, content, executable) in _without_clashes(leaves).items():
        full = os.path.join(os.fsencode(root), path)
        subprocess.run(["rm", "-rf", "--", full], check=True)
        for length in range(1, path.count(b"/") + 1):
            above = os.path.join(os.fsencode(root), b"/".join(path.split(b"/")[:length]))
            if not os.path.isdir(above) or os.path.islink(above):
                subprocess.run(["rm", "-rf", "--", above], check=True)
                os.mkdir(above)
        if kind == "link":
            os.symlink(content, full)
        else:
            put(root, path, content, 0o755 if executable else 0o644)
    answer = collector.collect(root, base.git, base.tree)
    assert answer.ends["patch"]["round_trip"]["ok"]
    assert join(sections_of(answer.patch, answer.facts.changes)) == answer.patch
    assert fingerprint(applied(base, answer.patch, where)) == fingerprint(root)
    subprocess.run(["rm", "-rf", str(where)], check=True)
