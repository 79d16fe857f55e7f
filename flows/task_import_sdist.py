"""Source distributions by name and version, fetched with this machine's own pip; nothing of them is run or built.

Rules:
1. pip wants the metadata of a source distribution and would run its build for it. A shim in pip's child process answers
   the build hooks (PEP 517) instead with the name and version that were asked for.
2. The archive is walked member by member and never extracted.
3. Without index or network nothing is made up: EnvironmentFault says what to do.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from cells.errors import EnvironmentFault, InputFileError
from cells.tasks.base_state import entries_of_archive
from cells.tasks.release_pair import Files, below_top
from cells.tasks.tree import TreeCaps, TreeProblem
from launchers.image_build_packages import pip_command

_CAPS = TreeCaps(members=50_000, file_bytes=256 << 20, total_bytes=1 << 30)
_TIMEOUT_S = 600
_SHIM = """\
import json, os, sys
hook = next((at for at, word in enumerate(sys.orig_argv) if os.path.basename(word) == "_in_process.py"), None)
if hook is not None:
    name, control = sys.orig_argv[hook + 1 : hook + 3]
    with open(os.path.join(control, "input.json")) as file:
        arguments = json.load(file)["kwargs"]
    answer = []
    if name == "prepare_metadata_for_build_wheel":
        project, version = os.environ["ASSAY_SDIST"].split("==")
        answer = "%s-%s.dist-info" % (project.replace("-", "_"), version)
        folder = os.path.join(arguments["metadata_directory"], answer)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "METADATA"), "w") as file:
            file.write("Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n" % (project, version))
    with open(os.path.join(control, "output.json"), "w") as file:
        json.dump({"unsupported": False, "return_val": answer}, file)
    os._exit(0)
"""


def fetch_sdist(name: str, version: str) -> Files:
    """The files of a source distribution, without its top folder. EnvironmentFault when it cannot be had."""
    with tempfile.TemporaryDirectory(prefix="assay-sdist-") as scratch:
        archive = _download(f"{name}=={version}", Path(scratch))
        try:
            return below_top(list(entries_of_archive(archive, _CAPS)), archive.name)
        except TreeProblem as problem:
            raise InputFileError(archive.name, str(problem)) from problem


def _download(requirement: str, scratch: Path) -> Path:
    shim, target = scratch / "shim", scratch / "sdist"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(_SHIM, "utf-8")
    options = ["--quiet", "--no-deps", "--no-binary=:all:", "--no-build-isolation", "--no-input"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(shim),
        "PIP_USE_PEP517": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "ASSAY_SDIST": requirement,
    }
    try:
        done = subprocess.run(
            [*pip_command(), "download", *options, "--dest", str(target), requirement],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"pip did not fetch the source of {requirement} within {_TIMEOUT_S} s") from error
    found = sorted(target.iterdir()) if target.is_dir() else []
    if done.returncode != 0 or len(found) != 1:
        words = "\n".join(done.stdout.decode("utf-8", "replace").splitlines()[-6:])
        raise EnvironmentFault(
            f"asked pip for the source of {requirement}; it brought {len(found)} files. See that this machine reaches "
            "its package index (pip download works), then run the command again; finished pairs are kept.\n" + words
        )
    return found[0]
