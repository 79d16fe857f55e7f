"""The study that `assay init` writes: one small task, two arms (a shell command each), both controls."""

from __future__ import annotations

from pathlib import Path

from cells.errors import UsageError
from cells.evidence.files import write_new

STUDY = """\
# A study: tasks x arms x samples. docs/study-file.md lists every key and its default; unknown keys are errors.
[study]
name = "{name}"
seed = 1                  # order of the cells, bootstrap, canaries
tasks = ["tasks/*"]       # directories that hold a task.toml
samples = 2               # statistical repetitions of each task and arm

[limits]                  # of one cell; an arm or a task may only tighten
wall_s = 60
memory_mb = 512
disk_mb = 64

[arms.control]            # any program is a harness: prompt on stdin, the repository as its directory
harness = "command"
settings = {{ command = ["sh", "-c", "exit 0"] }}

[arms.treatment]
harness = "command"
settings = {{ command = ["sh", "-c", "sed -i 's/a - b/a + b/' calc.py"] }}

# A harness that talks to a model (the key stays on this machine; the cell has no network):
# [models.live]
# provider = "openai"
# base_url = "http://127.0.0.1:8080/v1"
# model = "served-name"
# api_key_env = "OPENAI_API_KEY"
# [arms.live]
# harness = "reference"
# model = "live"
# input_limit = 16384

[controls]                # a task counts only if its gold patch resolves it and doing nothing does not
oracle = true
nop = true

[[comparisons]]           # the analysis plan, frozen with the study
control = "control"
treatment = "treatment"
outcomes = ["resolved", "f2p_fraction"]
"""

TASK = """\
schema_version = 1
id = "add"
repository = "calc"       # the cluster in the statistics
licence = "CC0-1.0"
source = "written by assay init"

[image]
base = "python"
recipe = { pip = ["pytest==9.2.0"] }

[verify]
command = ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--junitxml", "{report}"]
runner = "pytest"
timeout_s = 60
f2p = ["tests.test_calc::test_add"]
p2p = ["tests.test_calc::test_negate"]
"""

PROMPT = "`add(2, 3)` in calc.py returns -1. It should return 5.\n"
BASE = "def add(a, b):\n    return a - b\n\n\ndef negate(a):\n    return -a\n"
HIDDEN = """\
from calc import add, negate


def test_add():
    assert add(2, 3) == 5


def test_negate():
    assert negate(3) == -3
"""
GOLD = "".join(
    f"{line}\n"
    for line in (
        "diff --git a/calc.py b/calc.py",
        "--- a/calc.py",
        "+++ b/calc.py",
        "@@ -1,5 +1,5 @@",
        " def add(a, b):",
        "-    return a - b",
        "+    return a + b",
        " ",
        " ",
        " def negate(a):",
    )
)


def write_starter(directory: Path) -> list[Path]:
    """Write the starter study; UsageError when the directory already holds one of its files."""
    task = directory / "tasks" / "add"
    files = {
        directory / "study.toml": STUDY.format(name=_study_name(directory)),
        task / "task.toml": TASK,
        task / "prompt.md": PROMPT,
        task / "repo" / "calc.py": BASE,
        task / "sealed" / "tests" / "tests" / "test_calc.py": HIDDEN,
        task / "sealed" / "gold.patch": GOLD,
    }
    for path in files:
        if path.exists():
            raise UsageError(f"asked to write {path}; it exists already. Choose another directory")
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, content.encode(), 0o644)
    return list(files)


def _study_name(directory: Path) -> str:
    from cells.design.cell import slug

    return slug(directory.absolute().name)
