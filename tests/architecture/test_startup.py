"""A command that needs no orchestration costs no import of Prefect, pandas or their like."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("prefect", "matplotlib", "pandas", "pyarrow", "scipy", "statsmodels")

PROBE = """
import contextlib, io, json, sys
from flows.cli.main import main
sys.argv = ["assay", *json.loads(sys.argv[1])]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["status", "--help"], ["verify", "--help"]])
def test_the_command_line_starts_without_heavy_imports(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(arguments)], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "flows.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("package", ["flows", "cells", "launchers", "scoring"])
def test_a_package_itself_imports_nothing_heavy(package: str) -> None:
    command = f"import json, sys, {package}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert set(json.loads(done.stdout)).isdisjoint({*HEAVY, "docker"})
