"""What the policy drops, keeps and rejects, by path and kind; and that what is kept always applies without what is
not."""

from __future__ import annotations

import pytest

from cells.incell.trusted.machinery import import_roots, machinery_reason, shadow_reason
from cells.outcome import PatchState
from scoring.collected import Change, Collected, StreamEnd, parse_facts
from scoring.pack import touched_paths
from scoring.patch import PatchMismatch, Section, join, sections_of
from scoring.policy import PatchPolicy, decide, drop_reason, holds_expected
from tests.scoring.attempts import collector_frames
from tests.scoring.calc_task import patch_of

BASE = {
    "a.py": b"a = 1\n",
    "conftest.py": b"c = 1\n",
    "d/conftest.py": b"d = 1\n",
    "d/x.py": b"x = 1\n",
    "t/test_h.py": b"h\n",
}
POLICY = PatchPolicy(
    "pytest", "/workspace", hidden=frozenset({b"t/test_h.py"}), expected_modules=frozenset({"old.test_e"})
)


def collected(patch: bytes, changes: tuple[Change, ...], **more: object) -> Collected:
    """A collection with this patch."""
    rows = [change.model_dump() for change in changes]
    frames = collector_frames(rows, patch, **more)  # type: ignore[arg-type]
    ends = [frame for frame in frames if frame.type == "end"]
    fields = [{key: value for key, value in end.header.items() if key not in ("type", "stream")} for end in ends]
    patch_end, tree_end = (StreamEnd.model_validate(field) for field in fields)
    return Collected(task="t", facts=parse_facts(frames[0].body), patch=patch_end, archive=tree_end, files={})


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("conftest.py", "test_machinery"), ("a/b/conftest.py", "test_machinery"), ("conftest.py/x", "test_machinery"),
        ("pytest.ini", "runner_configuration"), ("a/.pytest.ini", "runner_configuration"),
        ("pytest.toml", "runner_configuration"), ("tox.ini", "runner_configuration"),
        ("setup.cfg", "runner_configuration"), ("x/pyproject.toml", "runner_configuration"),
        ("sitecustomize.py", "startup_hook"), ("a/usercustomize/__init__.py", "startup_hook"),
        ("sitecustomize.cpython-311-x86_64-linux-gnu.so", "startup_hook"), ("x.pth", "startup_hook"),
        ("x.egg-link", "startup_hook"), ("p-1.dist-info/entry_points.txt", "entry_points"),
        ("src/p.egg-info/PKG-INFO", "entry_points"), ("a/__pycache__/m.cpython-311.pyc", "compiled_python"),
        ("m.pyc", "compiled_python"),
        ("setup.py", None), ("src/conftest_helpers.py", None), ("README.md", None), ("fakebin/python3", None),
        ("src/site/customize.py", None), ("dist-info/x", None),
    ],
)  # fmt: skip
def test_machinery_by_path(path: str, reason: str | None) -> None:
    for runner in ("pytest", "script", "tap"):
        assert machinery_reason(path.encode(), runner) == reason


@pytest.mark.parametrize(
    ("runner", "path"),
    [
        ("jest", "package.json"), ("jest", "jest.config.js"), ("jest", "a/babel.config.cjs"),
        ("jest", "node_modules/x/i.js"),
        ("cargo", ".cargo/config.toml"), ("cargo", "rust-toolchain"), ("go", "p/x_test.go"), ("go", "go.work"),
        ("ctest", "b/CTestTestfile.cmake"), ("tap", ".proverc"),
    ],
)  # fmt: skip
def test_machinery_of_other_runners_counts_for_them_alone(runner: str, path: str) -> None:
    assert machinery_reason(path.encode(), runner) is not None
    assert machinery_reason(path.encode(), "pytest") is None


@pytest.mark.parametrize(
    ("path", "shadows"),
    [
        ("pytest.py", True), ("_pytest/__init__.py", True), ("json.py", True), ("src/ast.py", True),
        ("src/re/__init__.py", True),
        ("json.cpython-311-x86_64-linux-gnu.so", True), ("pkg/json.py", False), ("src/pkg/re.py", False),
        ("json/data.txt", False),
        ("test/__init__.py", False), ("code/x.py", False), ("json.md", False), ("srcx/json.py", False),
    ],
)  # fmt: skip
def test_new_modules_that_hide_the_runner(path: str, shadows: bool) -> None:
    assert (shadow_reason(path.encode(), (b"", b"src")) is not None) == shadows


def test_import_roots_are_the_work_directory_and_what_pythonpath_names_in_it() -> None:
    assert import_roots({"PYTHONPATH": "src:/workspace/lib/:/elsewhere:./x"}, "/workspace") == (
        b"",
        b"lib",
        b"src",
        b"x",
    )
    assert import_roots({}, "/workspace") == (b"",)


@pytest.mark.parametrize(
    ("candidate", "dropped"),
    [
        ({"a.py": b"a = 2\n"}, {}),
        ({"t/test_h.py": b"mine\n"}, {"t/test_h.py": "hidden_test"}),
        ({"old/test_e.py": b"mine\n"}, {"old/test_e.py": "expected_test_file"}),
        ({"b.bin": b"\0\1"}, {"b.bin": "binary"}),
        ({"pytest.py": b"x\n"}, {"pytest.py": "shadows_runner"}),
        ({"conftest.py": None, "conftest.py/x.py": b"x\n"},
         {"conftest.py": "test_machinery", "conftest.py/x.py": "test_machinery"}),
        ({"d": b"-> t"}, {"d/conftest.py": "test_machinery", "d": "needs_a_dropped_change"}),
        ({"conftest.py": b"-> a.py"}, {"conftest.py": "test_machinery"}),
    ],
)  # fmt: skip
def test_dropped_sections_and_what_depends_on_them(candidate: dict[str, bytes | None], dropped: dict[str, str]) -> None:
    if "conftest.py/x.py" in candidate:
        patch, changes = patch_of({**BASE}, {"conftest.py": None})
        more, new = patch_of(
            {key: value for key, value in BASE.items() if key != "conftest.py"}, {"conftest.py/x.py": b"x\n"}
        )
        patch, changes = patch + more, changes + new
    else:
        patch, changes = patch_of(BASE, candidate)
    found = decide(collected(patch, changes), sections_of(patch, changes), POLICY)
    assert {drop.section.change.path: drop.reason for drop in found.dropped} == dropped
    assert found.state is PatchState.PRESENT
    assert {section.change.path for section in found.kept} == {change.path for change in changes} - set(dropped)


def test_what_the_gold_patch_touches_is_never_dropped() -> None:
    patch, changes = patch_of(BASE, {"conftest.py": b"c = 2\n", "d/conftest.py": b"d = 2\n"})
    policy = PatchPolicy("pytest", "/workspace", gold=frozenset({b"conftest.py"}))
    found = decide(collected(patch, changes), sections_of(patch, changes), policy)
    assert [section.change.path for section in found.kept] == ["conftest.py"]


def test_new_files_that_the_base_ignores_are_dropped_and_changed_ones_kept() -> None:
    _, (change,) = patch_of(BASE, {"new.py": b"x\n"})
    section = Section(change.model_copy(update={"ignored": True}), b"", False)
    assert drop_reason(section, POLICY) == "ignored"
    changed = Section(change.model_copy(update={"ignored": True, "status": "M"}), b"", False)
    assert drop_reason(changed, POLICY) is None


def test_everything_dropped_is_present_and_empty() -> None:
    patch, changes = patch_of(BASE, {"conftest.py": b"c = 2\n"})
    found = decide(collected(patch, changes), sections_of(patch, changes), POLICY)
    assert found.state is PatchState.PRESENT and join(found.kept) == b""


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"tree": "1" * 40}, PatchState.EMPTY),
        ({"ok": False}, PatchState.UNAPPLIABLE),
    ],
)
def test_states_that_the_collection_decides(more: dict[str, object], state: PatchState) -> None:
    patch, changes = patch_of(BASE, {"a.py": b"a = 2\n"})
    assert decide(collected(patch, changes, **more), sections_of(patch, changes), POLICY).state is state


@pytest.mark.parametrize(
    ("cap", "words"), [({"max_bytes": 10}, "bytes, allowed 10"), ({"max_files": 1}, "files, allowed 1")]
)
def test_a_patch_over_the_caps_of_the_policy_is_rejected(cap: dict[str, int], words: str) -> None:
    patch, changes = patch_of(BASE, {"a.py": b"a = 2\n", "d/x.py": b"x = 2\n"})
    found = decide(collected(patch, changes), sections_of(patch, changes), PatchPolicy("pytest", "/workspace", **cap))  # type: ignore[arg-type]
    assert found.state is PatchState.REJECTED and words in found.rejections[0]


@pytest.mark.parametrize(
    ("update", "words"),
    [({"path": "../x"}, "leaves"), ({"path": "a/.GIT/x"}, ".git"), ({"new_mode": "160000"}, "special mode")],
)
def test_what_no_honest_tree_has_is_rejected(update: dict[str, str], words: str) -> None:
    patch, (change,) = patch_of(BASE, {"a.py": b"a = 2\n"})
    section = Section(change.model_copy(update=update), patch, False)
    found = decide(collected(patch, (change,)), [section], POLICY)
    assert found.state is PatchState.REJECTED and words in found.rejections[0]


def test_a_patch_is_bound_to_its_listing() -> None:
    patch, changes = patch_of(BASE, {"a.py": b"a = 2\n", "d/x.py": b"x = 2\n"})
    assert join(sections_of(patch, changes)) == patch
    swapped = tuple(reversed(changes))
    for wrong in (swapped, changes[:1], ()):
        with pytest.raises(PatchMismatch):
            sections_of(patch, wrong)
    with pytest.raises(PatchMismatch):
        sections_of(b"junk\n" + patch, changes)
    with pytest.raises(PatchMismatch):
        sections_of(patch.replace(b"index ", b"index 0", 1), changes)
    (mode, other) = (change.model_copy(update={"new_mode": "100755"}) for change in changes)
    with pytest.raises(PatchMismatch):
        sections_of(patch, (mode, other))


def test_names_in_the_text_of_a_patch_do_not_count() -> None:
    patch, changes = patch_of(BASE, {"a.py": b"a = 2\n"})
    (section,) = sections_of(patch.replace(b"a.py", b"b.py"), changes)
    assert section.path == b"a.py"


def test_paths_that_an_author_s_patch_touches() -> None:
    patch = b"""diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py\t2020-01-01
diff --git a/old name b/new name
rename from old name
rename to new name
diff --git "a/q\\303\\251.py" "b/q\\303\\251.py"
old mode 100644
diff --git a/only mode b/only mode
"""
    found = set(touched_paths(patch))
    assert found >= {b"x.py", b"old name", b"new name", "qé.py".encode(), b"only mode"}


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        (b"old/test_e.py", True),
        (b"src/old/test_e.py", True),
        (b"old/test_e.txt", False),
        (b"bold/test_e.py", False),
        (b"test_e.py", False),
    ],
)
def test_files_of_expected_tests(path: bytes, holds: bool) -> None:
    assert holds_expected(path, {"old.test_e"}) == holds
