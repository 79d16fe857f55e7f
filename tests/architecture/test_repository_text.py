"""No tracked file names the place where it was written: no package index, no mirror, no path of a machine."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOST = re.compile(r"https?://(?:[^@/\s\"']*@)?([A-Za-z0-9.-]+)")
# The well-known hosts, written in pieces so that this file does not name them either.
KNOWN_HOSTS = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "deb." + "debian.org",
    "security." + "debian.org",
    "registry." + "npmjs.org",
)
MACHINE_PATHS = ("/wo" + "rk/", "/ro" + "ot/.", ".lib" + "rary/")
LOOPBACK = ("localhost", "127.", "0.0.0.0")


def tracked_text() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    paths = [ROOT / name.decode("utf-8") for name in listed.split(b"\0") if name]
    return {
        str(path.relative_to(ROOT)): path.read_bytes().decode("utf-8", "replace")
        for path in paths
        if path.is_file() and not path.is_symlink()
    }


def hosts_of_this_machine() -> set[str]:
    """The hosts that this machine's package clients are set up with, wherever they keep them."""
    apt = [*Path("/etc/apt").glob("sources.list*"), *Path("/etc/apt").glob("sources.list.d/*")]
    texts = [path.read_text("utf-8", "replace") for path in apt if path.is_file()]
    texts += [value for name, value in os.environ.items() if "INDEX" in name.upper() or "REGISTRY" in name.upper()]
    pip = [Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"]
    texts += [path.read_text("utf-8", "replace") for path in pip if path.is_file()]
    found = {match[1] for text in texts for match in HOST.finditer(text)}
    return {host for host in found if "." in host and not host.startswith(LOOPBACK)}


def naming(words: set[str]) -> list[str]:
    return [f"{name}: {word}" for name, text in tracked_text().items() for word in sorted(words) if word in text]


def test_no_file_names_a_package_index_or_a_mirror() -> None:
    assert naming({*KNOWN_HOSTS, *hosts_of_this_machine()}) == []


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    assert naming(set(MACHINE_PATHS)) == []


def test_what_set_up_writes_is_ignored() -> None:
    made = [".venv/x", ".cache/apt.log", "studies/quickstart/study.json"]
    done = subprocess.run(
        ["git", "check-ignore", *made], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == made


def test_the_project_file_is_the_one_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["name"], project["scripts"]) == ("assay", {"assay": "flows.cli.main:main"})
