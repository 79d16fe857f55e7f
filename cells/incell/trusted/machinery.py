"""Which files steer a test runner or the start of an interpreter: never a candidate's to change, unless the gold
patch does.

Rules:
1. Judged by path alone, in both places that need it: the patch policy on the host, and the verifier before the tests
   run.
2. What every Python process obeys counts for every runner, since a script may start one.
3. A new module at an import root that would shadow the runner or the standard library counts; a changed one does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

RUNNER_CONFIGURATION = "runner_configuration"
TEST_MACHINERY = "test_machinery"
STARTUP_HOOK = "startup_hook"
ENTRY_POINTS = "entry_points"
COMPILED_PYTHON = "compiled_python"
SHADOWS_RUNNER = "shadows_runner"

_PYTEST_FILES = {b"pytest.ini", b".pytest.ini", b"pytest.toml", b".pytest.toml"}
_SETUP_FILES = {b"tox.ini", b"setup.cfg", b"pyproject.toml"}
_HOOKS = (b"sitecustomize", b"usercustomize")
_RUNNER_MODULES = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "xdist", "execnet", "py"}
)
_STANDARD = sys.stdlib_module_names - {"test"}  # a directory of tests is often called so
_BY_RUNNER: dict[str, tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]] = {
    # runner: (whole names, beginnings of names, directories)
    "jest": (
        (b"package.json", b"package-lock.json", b".npmrc", b".babelrc"),
        (b"jest.", b"babel.config.", b".babelrc.", b"vitest."),
        (b"node_modules", b"__mocks__"),
    ),
    "cargo": ((b"rust-toolchain", b"rust-toolchain.toml"), (), (b".cargo",)),
    "go": ((b"go.work", b"go.work.sum"), (), ()),
    "ctest": ((b"CTestTestfile.cmake", b"DartConfiguration.tcl"), (b"CTestCustom.",), ()),
    "tap": ((b".proverc",), (), ()),
}


def machinery_reason(path: bytes, runner: str) -> str | None:
    """Why a path is machinery, None when it is not."""
    *parents, name = path.split(b"/")
    if name == b"conftest.py" or b"conftest.py" in parents:
        return TEST_MACHINERY
    if name in _PYTEST_FILES or name in _SETUP_FILES:
        return RUNNER_CONFIGURATION
    if name.endswith((b".pyc", b".pyo")) or b"__pycache__" in parents:
        return COMPILED_PYTHON
    if any(part.split(b".")[0] in _HOOKS for part in (*parents, name)) or name.endswith((b".pth", b".egg-link")):
        return STARTUP_HOOK
    if any(part.endswith((b".dist-info", b".egg-info")) for part in (*parents, name)):
        return ENTRY_POINTS
    return _runner_reason(parents, name, runner)


def shadow_reason(path: bytes, import_roots: Iterable[bytes]) -> str | None:
    """Why a *new* file at an import root hides a module of the runner or of the standard library, None when it does
    not."""
    for root in import_roots:
        if root and not path.startswith(root + b"/"):
            continue
        rest = path[len(root) + 1 :] if root else path
        top, _, below = rest.partition(b"/")
        module = top.split(b".")[0].decode("utf-8", "replace")
        importable = below == b"__init__.py" if below else top.endswith((b".py", b".so"))
        if importable and (module in _RUNNER_MODULES or module in _STANDARD):
            return SHADOWS_RUNNER
    return None


def import_roots(environment: dict[str, str], workdir: str) -> tuple[bytes, ...]:
    """Directories below the work directory that Python imports from: itself, and what PYTHONPATH names (relative
    paths)."""
    roots = {b""}
    for entry in environment.get("PYTHONPATH", "").split(":"):
        relative = entry.removeprefix(workdir.rstrip("/") + "/").strip("/")
        if (relative and not entry.startswith("/")) or entry.startswith(workdir.rstrip("/") + "/"):
            roots.add(relative.removeprefix("./").encode("utf-8", "surrogateescape"))
    return tuple(sorted(roots))


def _runner_reason(parents: list[bytes], name: bytes, runner: str) -> str | None:
    names, beginnings, directories = _BY_RUNNER.get(runner, ((), (), ()))
    if name in names or (beginnings and name.startswith(beginnings)):
        return RUNNER_CONFIGURATION
    if any(part in directories for part in parents):
        return TEST_MACHINERY
    if runner == "go" and name.endswith(b"_test.go"):
        return TEST_MACHINERY
    return None
