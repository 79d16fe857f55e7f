"""Size-capped volumes for work directories (30-evidence C4): in memory, or an ext4 image on a loop device.

Rules:
1. A volume has a size, a number of inodes, an owner and a mode before anything runs in it; nosuid and nodev always.
2. The content of a volume in memory is gone at its last unmount: whoever needs it mounts it first.
3. A file-backed volume lies in a run directory of ours; its loop device and its image go when the volume goes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from cells.errors import InfraFailure
from cells.sandbox import AGENT_UID, Limits
from launchers.labels import BACKING

INODES_PER_MB = 256
_TOOL_TIMEOUT_S = 120


def create_in_memory(api: Any, labels: Mapping[str, str], limits: Limits, uid: int = AGENT_UID) -> str:
    """A tmpfs volume of `disk_mb`, owned by `uid`; its name."""
    if limits.disk_mb < 1:  # to a tmpfs, size=0 is no limit at all
        raise InfraFailure("volume", f"asked for a volume of {limits.disk_mb} MiB; at least 1 is needed")
    inodes = limits.disk_mb * INODES_PER_MB
    mount_options = f"size={limits.disk_mb}m,nr_inodes={inodes},uid={uid},gid={uid},mode=0750,nosuid,nodev"
    return _create(api, labels, {"type": "tmpfs", "device": "tmpfs", "o": mount_options})


def create_on_disk(
    api: Any, labels: Mapping[str, str], limits: Limits, run_directory: Path, uid: int = AGENT_UID
) -> str:
    """An ext4 volume of `disk_mb` in an image file under `run_directory`, owned by `uid`; its name.

    Raises InfraFailure("volume") where this machine cannot make one (root, losetup and mkfs.ext4 are needed).
    """
    run_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    image = run_directory / f"volume-{uuid.uuid4().hex}.ext4"
    _make_image(image, limits.disk_mb, uid)
    device = ""
    try:
        device = _tool("losetup", "--find", "--show", "--nooverlap", str(image)).strip()
        options = {"type": "ext4", "device": device, "o": "nosuid,nodev"}
        return _create(api, {**labels, BACKING: str(image)}, options)
    except InfraFailure:
        _release(device, image)
        raise


def remove(api: Any, name: str) -> None:
    """Remove a volume and what it stands on; one that is already gone is no error.

    Raises docker.errors.APIError when the engine refuses, as it does while a container uses it.
    """
    try:
        volume = api.inspect_volume(name)
        api.remove_volume(name)
    except NotFound:
        return
    image = (volume.get("Labels") or {}).get(BACKING)
    if image:
        _release((volume.get("Options") or {}).get("device", ""), Path(image))


def _create(api: Any, labels: Mapping[str, str], options: Mapping[str, str]) -> str:
    name = f"assay-{uuid.uuid4().hex}"
    try:
        api.create_volume(name=name, driver="local", driver_opts=dict(options), labels=dict(labels))
    except APIError as error:
        raise InfraFailure("volume", f"the engine refuses {dict(options)}: {error.explanation}") from error
    return name


def _make_image(image: Path, size_mb: int, uid: int) -> None:
    with image.open("xb") as stream:
        os.truncate(stream.fileno(), size_mb << 20)
    try:
        _tool(
            "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal",
            "-N", str(size_mb * INODES_PER_MB), "-E", f"root_owner={uid}:{uid}", str(image),
        )  # fmt: skip
        # An agent must find an empty work directory.
        _tool("debugfs", "-w", "-R", "rmdir lost+found", str(image))
        _tool("debugfs", "-w", "-R", "set_inode_field / mode 040750", str(image))
    except InfraFailure:
        image.unlink(missing_ok=True)
        raise


def _release(device: str, image: Path) -> None:
    if device and _backing_file(device) == str(image):
        _tool("losetup", "--detach", device)
    with contextlib.suppress(FileNotFoundError):
        image.unlink()


def _backing_file(device: str) -> str | None:
    try:
        return Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text().strip()
    except OSError:
        return None


def _tool(name: str, *arguments: str) -> str:
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise InfraFailure("volume", f'asked for disk_backing = "file"; {name} is missing (packages e2fsprogs, mount)')
    try:
        done = subprocess.run([program, *arguments], capture_output=True, timeout=_TOOL_TIMEOUT_S, text=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfraFailure("volume", f"{name}: {error}") from error
    if done.returncode != 0:
        raise InfraFailure("volume", f"{name} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
