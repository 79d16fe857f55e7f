"""The import contracts hold, and each one goes red when somebody breaks it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("flows", "cells", "launchers", "scoring")

# file that breaks the rule, what it imports, the contract that must be broken by it
VIOLATIONS = (
    ("launchers/planted_a.py", "import scoring", "Direction"),
    ("cells/planted_b.py", "import launchers", "Direction"),
    ("flows/planted_c.py", "import flows.live", "flows.live is used by flows.cell only"),
    ("flows/planted_d.py", "import docker", "The engine's SDK"),
    ("scoring/planted_e.py", "import prefect", "Prefect is for flows only"),
    ("cells/planted_f.py", "import pandas", "Tables and statistics"),
    ("flows/planted_g.py", "import pyarrow", "flows uses tables"),
)


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"], cwd=directory, capture_output=True, text=True, check=False, timeout=120
    )


def copied(directory: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", directory)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def plant(directory: Path, module: str, line: str) -> None:
    path = directory / module
    path.write_text((path.read_text("utf-8") if path.exists() else "") + f"\n{line}\n", "utf-8")


def verdict_of(output: str, contract: str) -> str:
    """The last word of the contract's line in the summary: KEPT or BROKEN."""
    return next(
        line.split()[-1] for line in output.splitlines() if contract in line and line.split()[-1] in ("KEPT", "BROKEN")
    )


def test_the_repository_keeps_all_contracts() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy in which every rule is broken once."""
    directory = copied(tmp_path_factory.mktemp("planted"))
    for module, line, _ in VIOLATIONS:
        plant(directory, module, line)
    plant(directory, "flows/live.py", "import scoring")
    plant(directory, "flows/post_run.py", "import launchers")
    done = lint_imports(directory)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("module", "line", "contract"), VIOLATIONS)
def test_a_planted_import_breaks_its_contract(broken: str, module: str, line: str, contract: str) -> None:
    assert verdict_of(broken, contract) == "BROKEN"
    assert module.removesuffix(".py").replace("/", ".") in broken


@pytest.mark.parametrize("contract", ["Only flows.cell joins", "Post-run code cannot reach"])
def test_live_and_post_run_code_cannot_meet(broken: str, contract: str) -> None:
    assert verdict_of(broken, contract) == "BROKEN"
