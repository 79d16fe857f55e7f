"""Which mechanism holds the child on this machine: the strongest one whose probe finds nothing that it must not see."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cells.errors import EnvironmentFault
from launchers.detectors.mechanism import Mechanism, interpreters, tool_versions
from launchers.detectors.program import PROBE

STRENGTH = ("bwrap", "container", "uid")
"""Mechanisms, strongest and cheapest first; `none` only when it is asked for by name."""
_ENGINE_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
_PROBE_TIMEOUT_S = 60.0
_IN_CONTAINER = "python3"


def find_mechanism(
    allowed: Sequence[str] = STRENGTH, image: str = "", labels: Mapping[str, str] | None = None
) -> Mechanism:
    """The strongest allowed mechanism that its probe proves.

    A container is tried only where its image is given. `none` is given only when it is allowed by name; otherwise
    EnvironmentFault says what was tried.
    """
    tried: list[str] = []
    for name in allowed:
        if name == "none":
            return Mechanism("none", {}, interpreters()[0])
        for mechanism in _candidates(name, image, labels or {}):
            problem = prove(mechanism)
            if problem is None:
                return mechanism
            tried.append(f"{name} with {mechanism.interpreter}: {problem}")
    raise EnvironmentFault(
        "asked for a wall around live detectors; no mechanism holds here "
        f"({'; '.join(tried) or 'none was allowed'}). Install bubblewrap (apt install bubblewrap) and allow user "
        "namespaces, or run as root"
    )


def prove(mechanism: Mechanism) -> str | None:
    """None when a probe inside the mechanism sees nothing that it must not see; else what went wrong or was seen."""
    with _witness() as witness:
        command = mechanism.command(["-c", PROBE, str(witness), *_ENGINE_SOCKETS])
        try:
            ran = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_TIMEOUT_S,
                env=environment(mechanism.name),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if ran.returncode != 0:
        return (ran.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit {ran.returncode}"])[-1][:200]
    return ", ".join(_forbidden(mechanism.name, json.loads(ran.stdout))) or None


def environment(name: str) -> dict[str, str]:
    """The environment of the program that makes the wall: where programs lie; for a container also which engine."""
    path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    engine = os.environ.get("DOCKER_HOST") if name == "container" else None
    return path | ({"DOCKER_HOST": engine} if engine else {})


def _candidates(name: str, image: str, labels: Mapping[str, str]) -> Iterator[Mechanism]:
    if name == "container":
        if image:
            yield Mechanism(name, {**tool_versions(name), "image": image}, _IN_CONTAINER, image, labels)
        return
    for interpreter in interpreters():
        yield Mechanism(name, tool_versions(name), interpreter)


def _forbidden(name: str, found: Mapping[str, Any]) -> list[str]:
    # Another user still sees that a socket exists (C7, "other uid"); what counts is that it cannot connect.
    harmless = {f"stat {path}" for path in _ENGINE_SOCKETS} if name == "uid" else set()
    seen = [one for one in found["seen"] if one not in harmless]
    return [*seen, "root's uid"] if found["uid"] == 0 else seen


@contextmanager
def _witness() -> Iterator[Path]:
    """A file that lies as ours do: in a folder that only we may enter."""
    with tempfile.TemporaryDirectory(prefix="assay-probe-") as folder:
        path = Path(folder) / "verdict.txt"
        path.write_bytes(b"resolved")
        yield path
