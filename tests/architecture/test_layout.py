"""The four packages lie flat in the repository, and nothing takes their names away from them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("flows", "cells", "launchers", "scoring")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_is_imported_from_the_repository_and_not_from_a_foreign_distribution(name: str) -> None:
    imported = importlib.import_module(name).__file__
    assert imported is not None and Path(imported).resolve() == ROOT / name / "__init__.py"


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_ships_its_types(name: str) -> None:
    assert (ROOT / name / "py.typed").is_file()


def test_no_folder_of_tests_is_a_package_and_so_none_shadows_one() -> None:
    assert sorted((ROOT / "tests").rglob("__init__.py")) == []


def test_no_module_of_flows_is_named_like_a_package() -> None:
    """A flow loaded by its script path has its folder first on the path: such a module would shadow the package."""
    taken = {path.name.removesuffix(".py") for path in (ROOT / "flows").iterdir()}
    assert taken.isdisjoint(PACKAGES)
