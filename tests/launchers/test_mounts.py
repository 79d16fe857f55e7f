"""What is mounted where in the containers of a cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from cells.design.cell import ArmContent, CellSpec
from cells.design.study_model import TighterLimits
from cells.errors import BoundaryViolation, EnvironmentFault
from cells.sandbox import Mount
from cells.tasks.frozen import LiveTask
from cells.tasks.image import TaskImage
from launchers.layers.layer import LAYER_MOUNT, Layer
from launchers.live_request import LiveRequest
from launchers.mounts import RECORDS_MB, CellVolumes, agent_spec, collector_spec, program_folder, refuse_attempt_paths
from launchers.specimen import LIMITS

IMAGE = TaskImage("t", "sha256:1", "sha256:r", "/workspace", "c1", "t1", "c2", "t2")
VOLUMES = CellVolumes("work", "records")


@pytest.fixture
def request_(tmp_path: Path) -> LiveRequest:
    arm = ArmContent("treatment-arm", "nop", None, None, {})
    spec = CellSpec("study-name", "t", "sha256:t", "sha256:r", arm, LIMITS, 1)
    task = LiveTask("t", b"prompt", "/workspace", TighterLimits(), ())
    return LiveRequest(spec, task, IMAGE, "a001", tmp_path / "stage/attempt")


def test_the_agent_sees_its_work_our_programs_its_record_and_its_door(request_: LiveRequest, tmp_path: Path) -> None:
    spec = agent_spec(request_, VOLUMES, tmp_path / "gw")
    assert {mount.target: (mount.kind, mount.read_only) for mount in spec.mounts} == {
        "/workspace": ("volume", False),
        "/assay/incell": ("directory", True),
        "/assay/records": ("volume", False),
        "/gw": ("directory", True),
    }
    assert (spec.user, spec.capabilities, dict(spec.environment)) == ("65532:65532", (), {})
    assert spec.limits.memory_mb == LIMITS.memory_mb + RECORDS_MB


def test_the_collector_sees_everything_read_only(request_: LiveRequest) -> None:
    spec = collector_spec(request_, VOLUMES)
    assert {mount.target: mount.kind for mount in spec.mounts} == {
        "/in": "volume",
        "/assay/incell": "directory",
        "/records": "volume",
    }
    assert all(mount.read_only for mount in spec.mounts)
    assert (spec.user, spec.capabilities) == ("0:0", ("DAC_OVERRIDE",))


def test_agent_side_and_trusted_programs_are_never_in_one_container(request_: LiveRequest) -> None:
    agent = [
        Path(mount.source).name for mount in agent_spec(request_, VOLUMES, None).mounts if mount.kind == "directory"
    ]
    collector = [
        Path(mount.source).name for mount in collector_spec(request_, VOLUMES).mounts if mount.kind == "directory"
    ]
    assert agent == ["agent"] and collector == ["trusted"]


def test_no_name_of_study_arm_or_cell_is_in_what_a_container_can_see(request_: LiveRequest, tmp_path: Path) -> None:
    spec = agent_spec(request_, VOLUMES, tmp_path / "gw")
    seen = repr((spec.command, spec.environment, spec.workdir, spec.tmpfs, [mount.target for mount in spec.mounts]))
    assert not any(word in seen for word in ("study-name", "treatment-arm", "attempt", "a001"))


def test_programs_that_a_cell_could_not_read_are_refused_with_what_to_do(tmp_path: Path) -> None:
    package = ModuleType("programs")
    package.__file__ = str(tmp_path / "__init__.py")
    Path(package.__file__).touch(mode=0o644)
    tmp_path.chmod(0o755)
    assert program_folder(package) == tmp_path
    tmp_path.chmod(0o700)
    with pytest.raises(EnvironmentFault, match="chmod"):
        program_folder(package)
    tmp_path.chmod(0o755)
    Path(package.__file__).chmod(0o600)
    with pytest.raises(EnvironmentFault, match="chmod"):
        program_folder(package)


@pytest.mark.parametrize("inside", ["", "live", "start/prompt.txt", ".."])
def test_no_file_of_the_attempt_is_ever_mounted(request_: LiveRequest, inside: str) -> None:
    mount = Mount(str(request_.stage / inside), "/layer", kind="directory")
    with pytest.raises(BoundaryViolation, match="/layer"):
        refuse_attempt_paths([mount], request_.stage)


def test_a_layer_is_read_only_in_the_agent_and_absent_from_the_collector(request_: LiveRequest) -> None:
    layer = Layer("some", "1", "assay-layer-x", "sha256:1", "sha256:2", 1, 1)
    layered = replace(request_, layers=(layer,))
    mount = Mount("assay-layer-x", LAYER_MOUNT, kind="volume", read_only=True)
    assert mount in agent_spec(layered, VOLUMES, None).mounts
    assert all("layer" not in found.source for found in collector_spec(layered, VOLUMES).mounts)


def test_a_link_to_the_attempt_is_no_way_around(request_: LiveRequest, tmp_path: Path) -> None:
    request_.stage.mkdir(parents=True)
    (tmp_path / "harmless").symlink_to(request_.stage)
    with pytest.raises(BoundaryViolation):
        refuse_attempt_paths([Mount(str(tmp_path / "harmless"), "/x", kind="directory")], request_.stage)
