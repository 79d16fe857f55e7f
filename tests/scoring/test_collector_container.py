"""Collection through a real collector container: uid, capability, read-only volume, the base in the image, frames
over the engine."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import cells.incell.trusted as trusted
import tests.scoring.mutations as mutations
from cells.artifacts import Role
from cells.attempt import SealedAttempt
from cells.sandbox import Channel, Container, ContainerSpec, Frame, Limits, Mount, Owner
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.images import build_task_image
from scoring.collect import collect
from scoring.collected import Facts, StreamEnd, parse_end, parse_facts
from scoring.patch import join, sections_of
from tests.scoring.attempts import live_facts, make_task, sealed_attempt
from tests.scoring.collecting import CAPS, Base, applied, fingerprint
from tests.scoring.mutations import EMPTY, MUTATIONS, make_base

pytestmark = pytest.mark.engine
TOML = """\
schema_version = 1
id = "mutations"
repository = "mutations"
[image]
base = "python"
[verify]
command = ["true", "{report}"]
runner = "script"
f2p = ["reward"]
"""
LIMITS = Limits(memory_mb=512, disk_mb=256, pids=64, tmp_mb=trusted.COLLECTOR_TMP_MB)
OWNER = Owner("tests", "mutations", "a001", "collector", 600)
NAMES = sorted(MUTATIONS)


class Volume:
    """A volume with one changed tree a name, and a collector that holds it."""

    def __init__(self, sandboxes: DockerSandboxes, image: str, base_tree: str) -> None:
        self.base_tree = base_tree
        self._sandboxes, self._image = sandboxes, image
        self.name = sandboxes.create_volume(OWNER, LIMITS)
        programs = Mount(str(Path(trusted.__file__).parent), trusted.MOUNT, kind="directory")
        volume = Mount(self.name, trusted.VOLUME_ROOT)
        self.container = self._run(trusted.COLLECTOR_COMMAND, (volume, programs), "0:0", trusted.COLLECTOR_CAPABILITIES)
        self.channel: Channel = self.container.attach()
        self.container.start()

    def mutate(self, names: list[str]) -> None:
        """What agents do, as the agent's user, in a container of their own that is gone afterwards."""
        tests = Mount(str(Path(mutations.__file__).parent), "/mutations", kind="directory")
        work = Mount(self.name, "/workspace", read_only=False)
        command = ("python3", "/mutations/mutations.py", "/workspace", *names)
        agent = self._run(command, (work, tests), "65532:65532", ())
        agent.attach()
        agent.start()
        end = agent.wait(time.monotonic() + 120)
        agent.remove()
        assert end is not None and end.code == 0, end

    def _run(self, command: tuple[str, ...], mounts: tuple[Mount, ...], user: str, more: tuple[str, ...]) -> Container:
        spec = ContainerSpec(OWNER, self._image, command, LIMITS, user=user, mounts=mounts, capabilities=more)
        return self._sandboxes.create(spec)

    def close(self) -> None:
        """Remove it all."""
        self.container.remove()
        self._sandboxes.remove_volume(self.name)


@pytest.fixture(scope="module")
def base(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[Base, str]:
    """The base of the mutations as a task image; its pristine tree on the host, and the image."""
    where = tmp_path_factory.mktemp("mutations")
    make_base(where / "pristine")
    task = make_task(where, TOML, {**_files(where / "pristine"), "sealed/verify.sh": b"#!/bin/sh\n"})
    image = build_task_image(task, engine)
    shutil.rmtree(where / "pristine/.git")
    return Base(where, image.base_tree, where / "pristine"), image.image_id


def _files(root: Path) -> dict[str, bytes]:
    found = [path for path in root.rglob("*") if ".git" not in path.parts and (path.is_file() or path.is_symlink())]
    return {
        f"repo/{path.relative_to(root)}": b"-> " + os.readlink(path).encode()
        if path.is_symlink()
        else path.read_bytes()
        for path in found
    }


@pytest.fixture(scope="module")
def volume(sandboxes: DockerSandboxes, base: tuple[Base, str]) -> Iterator[Volume]:
    made = Volume(sandboxes, base[1], base[0].tree)
    made.mutate(NAMES)
    yield made
    made.close()


@pytest.mark.parametrize("name", NAMES)
def test_base_and_patch_make_the_tree_in_the_container(
    name: str, volume: Volume, base: tuple[Base, str], tmp_path: Path
) -> None:
    request = {"type": "collect", "root": f"{trusted.VOLUME_ROOT}/{name}", "base_tree": volume.base_tree}
    volume.channel.send({**request, **CAPS, "tree_bytes": 0})
    facts, patch, end = _read(volume.channel)
    assert end.complete and end.round_trip is not None and end.round_trip.ok
    assert (patch == b"") == (name in EMPTY)
    assert join(sections_of(patch, facts.changes)) == patch
    if name != "too_deep":
        same = tmp_path / "same"
        make_base(same)
        MUTATIONS[name](same)
        assert fingerprint(applied(base[0], patch, tmp_path)) == fingerprint(same)


def _read(channel: Channel) -> tuple[Facts, bytes, StreamEnd]:
    frames: list[Frame] = []
    while not frames or frames[-1].type != "collected":
        frames.append(channel.receive(time.monotonic() + 60, 64 << 20))
        assert frames[-1].type != "error", frames[-1].header
    patch = b"".join(frame.body for frame in frames if frame.type == "part" and frame.header["stream"] == "patch")
    end = next(frame for frame in frames if frame.type == "end" and frame.header["stream"] == "patch")
    return parse_facts(frames[0].body), patch, parse_end(end.header)


@pytest.mark.parametrize("name", ["edit_text", "unreadable", "nested_repo", "too_deep"])
def test_a_whole_collection_into_a_sealed_attempt(
    name: str, sandboxes: DockerSandboxes, base: tuple[Base, str], tmp_path: Path
) -> None:
    """One volume for one tree, laid out as in a study: the tree is the volume's root."""
    made = Volume(sandboxes, base[1], base[0].tree)
    try:
        made.mutate([name])
        sealed = sealed_attempt(tmp_path / "a001", facts=live_facts(base_tree=made.base_tree))
        collected = collect(sealed, _Below(made.channel, name), "mutations")
        assert collected.is_exact and collected.archive.complete
        _assert_kept(sealed)
    finally:
        made.close()


def _assert_kept(sealed: SealedAttempt) -> None:
    assert sealed.read("post/mutations.unfiltered.patch", Role.SCORING).startswith(b"diff --git ")
    assert sealed.has("post/collect.json")


class _Below:
    """The channel of a collector whose tree lies one directory below its root."""

    def __init__(self, channel: Channel, name: str) -> None:
        self._channel, self._name = channel, name

    def send(self, header: Mapping[str, object], body: bytes = b"") -> None:
        self._channel.send({**header, "root": f"{trusted.VOLUME_ROOT}/{self._name}"}, body)

    def receive(self, deadline: float, max_body: int) -> Frame:
        return self._channel.receive(deadline, max_body)

    def close(self) -> None:
        self._channel.close()
