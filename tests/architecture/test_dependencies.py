"""Dependencies are declared with a reason, imported only if declared, and locked by hash without naming a place."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("flows", "cells", "launchers", "scoring")
LOCKS = ("infra/requirements.lock", "infra/requirements-dev.lock")
DECLARATION = re.compile(r'^\s*"(?P<name>[A-Za-z0-9._-]+)[^"]*",\s*(?:#\s*(?P<reason>.*))?$')


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]) for requirement in requirements}


def declared_requirements() -> list[str]:
    table = project()
    extras = [one for group in table["project"]["optional-dependencies"].values() for one in group]
    return [*table["project"]["dependencies"], *extras, *table["dependency-groups"]["dev"]]


def locked(lock: str) -> dict[str, str]:
    """The text of each locked requirement by its normal name."""
    text = (ROOT / lock).read_text("utf-8")
    return {
        normal(entry.split("==")[0]): entry
        for entry in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M)
        if "==" in entry
    }


def test_each_dependency_stands_with_its_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text("utf-8").splitlines()
    reasons = {normal(found["name"]): found["reason"] for line in lines if (found := DECLARATION.match(line))}
    without = [name for name in sorted(names(declared_requirements())) if not reasons.get(name)]
    assert without == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_is_declared(package: str) -> None:
    allowed = names(project()["project"]["dependencies"]) | names(project()["project"]["optional-dependencies"]["sign"])
    brings = metadata.packages_distributions()
    undeclared = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / package).rglob("*.py")
        for module in imported_modules(path)
        if module not in sys.stdlib_module_names
        and module not in PACKAGES
        and not {normal(name) for name in brings.get(module, [module])} & allowed
    }
    assert undeclared == set()


def imported_modules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    origin = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in plain | {name for name in origin if name}}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_requirement_has_hashes(lock: str) -> None:
    without = [name for name, entry in locked(lock).items() if "--hash=sha256:" not in entry]
    assert locked(lock) and without == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert not re.search(
        r"://|^\s*-|@ file|--index|--find-links", re.sub(r"^\s*--hash=\S+", "", text, flags=re.M), re.M
    )


def test_what_is_declared_is_locked() -> None:
    runtime = names(project()["project"]["dependencies"])
    assert runtime - locked(LOCKS[0]).keys() == set()
    assert names(declared_requirements()) - locked(LOCKS[1]).keys() == set()


def test_the_lock_of_the_tests_holds_the_lock_of_a_run() -> None:
    """Otherwise the tests would try other versions than a study uses."""
    run, tests = locked(LOCKS[0]), locked(LOCKS[1])
    first_lines = {name: entry.splitlines()[0] for name, entry in run.items()}
    assert {name: tests[name].splitlines()[0] for name in run} == first_lines


def test_this_environment_is_what_is_locked() -> None:
    expected = {name: entry.split("==")[1].split()[0] for name, entry in locked(LOCKS[1]).items()}
    installed = {normal(found.name): found.version for found in metadata.distributions()}
    assert {name: version for name, version in expected.items() if installed.get(name, version) != version} == {}
