"""PID 1 of the verifier container: proves the verifier on the base, then runs the hidden tests on base + patch.

Rules:
1. Frames on stdin and stdout are root's alone: tests run as another user, in their own session, with a pipe of their
   own.
2. Order of a verification: reset to the base, apply the patch, restore machinery, take away and lay over sealed
   files, run, kill,
   read the report. Sealed files stay in this process's memory until they are laid.
3. What is answered are facts: exit, report, output, exactness of the patch. The verdict is made on the host.

Requests: `open` (work directory, user, environment, caps), `file` (a sealed file), `changes` (what the patch changes),
`run` (kind `self_check` or `candidate`, the patch as body), `exit`.
Answers: `opened`; for `run`: `prepared` (kind `candidate` only), then `ran` with the report as body and `log` with
the output; `error`.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # run as a script in the container: this directory is the package
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(_here))
    __package__ = os.path.basename(_here)
    __import__(__package__)

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import Any

from .candidate_run import RunRequest, run_candidate
from .frames import BadFrame, read_frame, write_frame
from .names import decode_name, encode_name
from .objects import GitFailed
from .verifier_tree import BASE, SealedFile, apply_patch, lay, lay_base, mismatch, remove, restore_machinery

REQUEST_BYTES = 128 << 20
SCRATCH = "/tmp"
_FAULTS = (OSError, ValueError, KeyError, TypeError, GitFailed, subprocess.SubprocessError, TimeoutError)


class Refused(Exception):
    """A request that came before the one it needs."""


@dataclass
class Setting:
    """What `open` fixed for all runs of this container."""

    workdir: str
    user: int
    runner: str
    environment: dict[str, str]
    log_bytes: int
    report_bytes: int
    base: str = BASE
    changes: list[dict[str, str]] = field(default_factory=list)
    """What the next patch changes: `{path, new_mode, new}`, names encoded."""
    files: dict[str, list[SealedFile]] = field(default_factory=dict)
    """Sealed files by area: `tree`, `canary` and `original` (with and without the canary in it), `beside`."""


def serve(requests: int, answers: int) -> int:
    """Answer requests until `exit` or the end of stdin."""
    setting: Setting | None = None
    with os.fdopen(requests, "rb", closefd=False) as stream:
        while True:
            try:
                frame = read_frame(stream, REQUEST_BYTES)
                if frame is None or frame[0].get("type") == "exit":
                    return 0
                setting = _answer(frame[0], frame[1], setting, answers)
            except BadFrame as error:
                write_frame(answers, {"type": "error", "detail": str(error)})
                return 2
            except (Refused, *_FAULTS) as error:
                write_frame(answers, {"type": "error", "detail": f"{type(error).__name__}: {error}"[:4000]})


def _answer(request: dict[str, Any], body: bytes, setting: Setting | None, answers: int) -> Setting | None:
    kind = request.get("type")
    if kind == "open":
        os.umask(0o022)
        write_frame(answers, {"type": "opened", "python": sys.version.split()[0]})
        return Setting(**{key: value for key, value in request.items() if key not in ("type", "size")})
    if setting is None:
        raise Refused(f"{kind!r} before open")
    if kind == "file":
        setting.files.setdefault(request["area"], []).append(_sealed_file(request, body))
    elif kind == "changes":
        setting.changes = json.loads(body)
    elif kind == "run":
        _run(request, body, setting, answers)
    else:
        raise Refused(f"unknown request {kind!r}")
    return setting


def _sealed_file(request: dict[str, Any], body: bytes) -> SealedFile:
    target = None if request["target"] is None else decode_name(request["target"])
    return SealedFile(decode_name(request["path"]), request["executable"], body, target)


def _run(request: dict[str, Any], patch: bytes, setting: Setting, answers: int) -> None:
    _empty_scratch(setting.user)
    scratch = tempfile.mkdtemp(prefix="assay-", dir=SCRATCH)
    os.chmod(scratch, 0o711)
    try:
        lay_base(setting.workdir, setting.base, setting.user)
        if request["kind"] == "candidate":
            prepared = _apply(request, patch, setting, scratch)
            write_frame(answers, {"type": "prepared", **prepared})
            if prepared["problem"] is not None:
                return
        _lay_sealed(request, setting, scratch)
        result = run_candidate(_run_request(request, setting), scratch, os.path.join(scratch, "pack"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    facts = {key: getattr(result, key) for key in ("exit", "timed_out", "duration_s", "report_state", "survivors")}
    write_frame(answers, {"type": "ran", **facts}, result.report)
    write_frame(answers, {"type": "log", "dropped": result.log.dropped}, result.log.content())


def _apply(request: dict[str, Any], patch: bytes, setting: Setting, scratch: str) -> dict[str, Any]:
    problem = apply_patch(patch, setting.workdir, scratch, setting.user)
    problem = problem or mismatch(setting.workdir, setting.changes)
    if problem is not None:
        return {"problem": problem, "restored": []}
    restored = restore_machinery(
        setting.workdir,
        setting.base,
        [decode_name(change["path"]) for change in setting.changes],
        setting.runner,
        {decode_name(name) for name in request["allowed"]},
        [decode_name(name) for name in request["import_roots"]],
        setting.user,
    )
    return {"problem": None, "restored": [encode_name(path) for path in restored]}


def _lay_sealed(request: dict[str, Any], setting: Setting, scratch: str) -> None:
    for name in request["remove"]:
        remove(setting.workdir, decode_name(name))
    for area in ("tree", "canary" if request.get("canary") else "original"):
        lay(setting.workdir, setting.files.get(area, ()), setting.user)
    pack = os.path.join(scratch, "pack")
    os.mkdir(pack, 0o755)
    lay(pack, setting.files.get("beside", ()), setting.user)


def _run_request(request: dict[str, Any], setting: Setting) -> RunRequest:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    return RunRequest(
        command=[*request["command"], *_existing(request.get("select", []), setting.workdir)],
        workdir=setting.workdir,
        environment={**inherited, **setting.environment},
        user=setting.user,
        timeout_s=request["timeout_s"],
        log_bytes=setting.log_bytes,
        report_bytes=setting.report_bytes,
    )


def _existing(select: list[list[list[str]]], workdir: str) -> list[str]:
    """Of each list of alternatives `[file, argument]`, the argument of the first whose file is in the tree."""
    found = []
    for alternatives in select:
        for path, argument in alternatives:
            if os.path.isfile(os.path.join(workdir, path)):
                found.append(argument)
                break
    return found


def _empty_scratch(user: int) -> None:
    """Nothing that an earlier run left in /tmp is there for a later one."""
    for entry in os.scandir(SCRATCH):
        if entry.stat(follow_symlinks=False).st_uid == user:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


if __name__ == "__main__":
    sys.exit(serve(0, 1))
