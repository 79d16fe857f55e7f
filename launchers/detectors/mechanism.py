"""What holds the detector child: bubblewrap, else a container, else another user in namespaces of its own; proved.

Rules (30-evidence C7):
1. A mechanism is used only after a probe inside it could neither see a file of ours, nor reach the engine's socket, nor
   an interface but the loopback.
2. The name of the mechanism in force goes into start/SEAL.json; `none` is a name for "nothing holds it" and never
   passes for a wall.
3. No environment, no inherited file descriptor; rows on stdin, decisions on stdout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

DETECTOR_UID = 65531
"""uid and gid of the child."""
PROGRAM = "{program}"
"""The word in the arguments that stands for the child's program."""
_INSIDE = "/assay/detection.zip"
_VERSION_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Mechanism:
    """A way to run the child; `image` and `labels` are those of a container."""

    name: str
    versions: dict[str, Any] = field(default_factory=dict)
    interpreter: str = sys.executable
    image: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def command(self, arguments: Sequence[str], program: Path | None = None, mark: str = "probe") -> list[str]:
        """The argv of an interpreter inside the mechanism; `mark` names the container, where it is one."""
        in_place = self.name in ("uid", "none")
        place = str(program) if in_place else _INSIDE
        words = [place if word == PROGRAM else word for word in arguments]
        return [*_PREFIX[self.name](self, program, mark), self.interpreter, "-I", "-S", *words]

    def removal(self, mark: str) -> list[str] | None:
        """The argv that removes what a killed child may leave; None where the kill is enough."""
        return ["docker", "rm", "--force", f"assay-detector-{mark}"] if self.name == "container" else None

    def as_json(self) -> dict[str, Any]:
        """For the gateway process, which starts the child."""
        return asdict(self)


def interpreters() -> list[str]:
    """Python interpreters of the host to try: ours, then the system's."""
    ours = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    system = [Path(path).resolve() for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()]
    return [str(path) for path in dict.fromkeys([ours, *system])]


def tool_versions(name: str) -> dict[str, Any]:
    """Versions of the programs that make the wall; null for one that is not there."""
    tools = {"bwrap": ("bwrap",), "container": ("docker",), "uid": ("unshare", "setpriv"), "none": ()}
    return {tool: _version(tool) for tool in tools[name]}


def _bwrap(mechanism: Mechanism, program: Path | None, mark: str) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    words += ["--uid", str(DETECTOR_UID), "--gid", str(DETECTOR_UID), "--ro-bind", "/usr", "/usr"]
    for link in ("/lib", "/lib64", "/bin"):
        if os.path.islink(link):
            words += ["--symlink", os.readlink(link), link]
        elif os.path.isdir(link):
            words += ["--ro-bind", link, link]
    home = Path(mechanism.interpreter).parent.parent
    if not home.is_relative_to("/usr"):
        words += ["--ro-bind", str(home), str(home)]
    if program is not None:
        words += ["--ro-bind", str(program), _INSIDE]
    return [*words, "--dev", "/dev", "--chdir", "/"]


def _container(mechanism: Mechanism, program: Path | None, mark: str) -> list[str]:
    words = ["docker", "run", "--rm", "--interactive", "--name", f"assay-detector-{mark}", "--network", "none"]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--ipc", "private"]
    words += ["--user", f"{DETECTOR_UID}:{DETECTOR_UID}", "--pids-limit", "32", "--memory", "256m"]
    words += ["--memory-swap", "256m", "--cpus", "1", "--log-driver", "none", "--workdir", "/"]
    for key, value in mechanism.labels.items():
        words += ["--label", f"{key}={value}"]
    if program is not None:
        words += ["--volume", f"{program}:{_INSIDE}:ro"]
    return [*words, "--entrypoint", "", mechanism.image]


def _uid(mechanism: Mechanism, program: Path | None, mark: str) -> list[str]:
    uid = str(DETECTOR_UID)
    leave = ["unshare", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child"]
    drop = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--no-new-privs", "--bounding-set", "-all"]
    return [*leave, *drop, "--inh-caps", "-all"]


def _none(mechanism: Mechanism, program: Path | None, mark: str) -> list[str]:
    return []


_PREFIX: dict[str, Callable[[Mechanism, Path | None, str], list[str]]] = {
    "bwrap": _bwrap,
    "container": _container,
    "uid": _uid,
    "none": _none,
}


def _version(tool: str) -> str | None:
    if shutil.which(tool) is None:
        return None
    try:
        said = subprocess.run(
            [tool, "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip().splitlines()[0] if said.stdout.strip() else None
