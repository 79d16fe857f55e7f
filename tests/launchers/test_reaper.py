"""What a dead process left on the engine is found by its labels; nothing else is touched."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cells.incell.agent import INIT_COMMAND
from cells.sandbox import Limits, Owner
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.labels import OWNER
from launchers.reaper import leftovers, prune, reap
from launchers.specimen import SpecimenCells

pytestmark = pytest.mark.engine
LIMITS = Limits(memory_mb=64, disk_mb=8, pids=16)
MAKER = """
import json, os, sys, time
import cells.incell.agent as agent_side
from cells.sandbox import ContainerSpec, Limits, Mount, Owner
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
study, image, command = sys.argv[1], sys.argv[2], tuple(json.loads(sys.argv[3]))
sandboxes, owner, limits = DockerSandboxes(Engine.connect()), Owner(study, "c", "a1", "agent", 600), Limits(64, 1.0, 8)
volume = sandboxes.create_volume(owner, limits)
programs = Mount(os.path.dirname(agent_side.__file__), agent_side.MOUNT, kind="directory")
mounts = (Mount(volume, "/work", read_only=False), programs)
container = sandboxes.create(ContainerSpec(owner, image, command, limits, mounts=mounts))
channel = container.attach()
container.start()
print(json.dumps([container.id, volume]), flush=True)
time.sleep(600)
"""


@dataclass
class Made:
    """A container and a volume, and who made them."""

    container: str
    volume: str
    process: subprocess.Popen[str]

    def die(self) -> None:
        """SIGKILL the maker."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def study() -> str:
    """A name that no other test uses."""
    return f"reaper-{uuid.uuid4().hex[:12]}"


def make(study: str, image: str, *command: str) -> Made:
    """A process of its own that made a running container with a volume."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAKER, study, image, json.dumps(command)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as said:
        container, volume = json.loads(said.readline())
        return Made(container, volume, process)


@pytest.fixture
def made(study: str, specimens: SpecimenCells, engine: Engine) -> Iterator[Made]:
    """A running container that takes no notice of its maker."""
    found = make(study, specimens.image.image_id, "sleep", "600")
    yield found
    found.die()
    reap(engine, dead_only=False, study=study)


def held(engine: Engine, study: str) -> tuple[set[str], set[str]]:
    """Containers and volumes of a study on the engine."""
    only = {"label": f"assay.study={study}"}
    containers = {item["Id"] for item in engine.api.containers(all=True, filters=only)}
    return containers, {item["Name"] for item in engine.api.volumes(filters=only)["Volumes"] or []}


@pytest.mark.fault
def test_what_a_killed_process_left_is_removed_container_before_volume(made: Made, study: str, engine: Engine) -> None:
    assert [one for one in reap(engine) if one.study == study] == []
    assert held(engine, study) == ({made.container}, {made.volume})
    made.die()
    assert {made.container[:12], made.volume} <= set(leftovers(engine, time.time()))
    removed = [one for one in reap(engine) if one.study == study]
    assert [(one.kind, one.name, one.why, one.problem) for one in removed] == [
        ("container", made.container, "owner_dead", None),
        ("volume", made.volume, "owner_dead", None),
    ]
    assert held(engine, study) == (set(), set())


def test_a_passed_deadline_is_enough(made: Made, study: str, engine: Engine) -> None:
    assert reap(engine, study=study, now=time.time() + 500) == []
    removed = reap(engine, study=study, now=time.time() + 700)
    assert {one.why for one in removed} == {"deadline_passed"} and held(engine, study) == (set(), set())


def test_another_study_is_left_alone_when_one_is_named(made: Made, study: str, engine: Engine) -> None:
    made.die()
    assert reap(engine, study="another") == []
    assert held(engine, study) == ({made.container}, {made.volume})


@pytest.mark.parametrize("labels", [{}, {"assay.study": "x"}, {"assay.probe": "1"}])
def test_what_does_not_carry_our_owner_label_is_never_touched(
    engine: Engine, specimens: SpecimenCells, labels: dict[str, str]
) -> None:
    config = {"Image": specimens.image.image_id, "Cmd": ["true"], "Labels": labels}
    foreign = engine.api.create_container_from_config(config)["Id"]
    volume = engine.api.create_volume(f"foreign-{uuid.uuid4().hex}", labels=labels)["Name"]
    try:
        reap(engine)
        reap(engine, dead_only=False, study="x")
        assert engine.api.inspect_container(foreign)["Id"] == foreign
        assert engine.api.inspect_volume(volume)["Name"] == volume
    finally:
        engine.api.remove_container(foreign, force=True)
        engine.api.remove_volume(volume)


def test_what_the_engine_refuses_to_remove_is_reported(engine: Engine, specimens: SpecimenCells, study: str) -> None:
    sandboxes = DockerSandboxes(engine)
    volume = sandboxes.create_volume(Owner(study, "c", "a001", "agent", 60), LIMITS)
    foreign = engine.api.create_container_from_config(
        {
            "Image": specimens.image.image_id,
            "Entrypoint": ["sleep", "60"],
            "HostConfig": {"Mounts": [{"Type": "volume", "Source": volume, "Target": "/work"}], "NetworkMode": "none"},
        }
    )["Id"]
    try:
        (kept,) = reap(engine, dead_only=False, study=study)
        assert (kept.kind, kept.name) == ("volume", volume) and "in use" in (kept.problem or "")
    finally:
        engine.api.remove_container(foreign, force=True)
        sandboxes.remove_volume(volume)


@pytest.mark.fault
def test_a_killed_orchestrator_leaves_an_agent_that_ends_by_itself(
    engine: Engine, specimens: SpecimenCells, study: str
) -> None:
    """The channel of the first process is its life line: without it no agent goes on unwatched."""
    found = make(study, specimens.image.image_id, *INIT_COMMAND)
    assert engine.api.inspect_container(found.container)["State"]["Running"]
    found.die()
    assert engine.api.wait(found.container, timeout=30)["StatusCode"] == 3
    assert {one.kind for one in reap(engine, study=study)} == {"container", "volume"}


def test_an_image_goes_when_no_study_needs_its_recipe(engine: Engine, specimens: SpecimenCells) -> None:
    recipe = f"sha256:{uuid.uuid4().hex * 2}"
    container = engine.api.create_container_from_config({"Image": specimens.image.image_id, "Cmd": ["true"]})["Id"]
    name = f"assay/task:prune-{uuid.uuid4().hex[:12]}"
    repository, tag = name.split(":")
    engine.api.commit(container, repository=repository, tag=tag, conf={"Labels": {"assay.recipe": recipe}})
    engine.api.remove_container(container)
    held = engine.api.images(filters={"label": "assay.recipe"})
    held += engine.api.volumes(filters={"label": "assay.recipe"}).get("Volumes") or []
    needed = {item["Labels"]["assay.recipe"] for item in held}
    assert prune(engine, needed) == []
    removed = prune(engine, needed - {recipe})
    assert [(one.kind, one.problem) for one in removed] == [("image", None)]
    assert engine.api.images(name=name) == []


def test_labels_are_what_the_reaper_reads(made: Made, engine: Engine) -> None:
    assert engine.api.inspect_container(made.container)["Config"]["Labels"][OWNER].startswith(f"{made.process.pid}.")
