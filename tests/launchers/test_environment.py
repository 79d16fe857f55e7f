"""What a harness is given: the variables of the documented interface, and nothing that differs between arms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cells.design.cell import ArmContent, CellSpec
from cells.design.study_model import TighterLimits
from cells.tasks.frozen import LiveTask, PromptImage
from cells.tasks.image import TaskImage
from launchers.environment import orders_of
from launchers.first_process import Orders
from launchers.harnesses import check_settings, harness
from launchers.live_request import LiveRequest
from launchers.specimen import LIMITS

MODEL = {"name": "treatment-model", "provider": "openai", "base_url": "http://host/v1", "model": "served"}


def orders(name: str, settings: dict[str, Any], *, model: bool = True, arm: str = "control") -> Orders:
    content = ArmContent(arm, name, MODEL if model else None, 1000, check_settings(name, settings))
    spec = CellSpec("study", "t", "sha256:t", "sha256:r", content, LIMITS, 1)
    task = LiveTask("t", b"Mend it.\n", "/workspace", TighterLimits(), (PromptImage("a.png", b"png"),))
    image = TaskImage("t", "sha256:1", "sha256:r", "/workspace", "c", "t", "c", "t")
    request = LiveRequest(spec, task, image, "a001", Path("/nowhere"))
    return orders_of(request, harness(name))


def test_a_command_gets_what_the_interface_says() -> None:
    found = orders("command", {"command": ["agent"]})
    assert found.environment == {
        "HOME": "/tmp/home",
        "LANG": "C.UTF-8",
        "USER": "agent",
        "PWD": "/workspace",
        "ASSAY_WORKDIR": "/workspace",
        "ASSAY_PROMPT_FILE": "/tmp/assay/prompt.md",
        "ASSAY_IMAGE_FILES": "/tmp/assay/images/a.png",
        "ASSAY_MODEL": "served",
        "ASSAY_MODEL_SOCKET": "/gw/model.sock",
        "OPENAI_BASE_URL": "http://127.0.0.1:8377/v1",
        "OPENAI_API_KEY": "unused",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:8377",
        "ANTHROPIC_API_KEY": "unused",
    }
    assert found.files == {"prompt.md": b"Mend it.\n", "images/a.png": b"png"}
    assert (found.stdin, found.workdir, found.command) == (b"Mend it.\n", "/workspace", ("agent",))
    assert found.forward == ((8377, "/gw/model.sock"),)


def test_without_a_model_nothing_points_to_one() -> None:
    found = orders("command", {"command": ["agent"]}, model=False)
    assert found.forward == () and not any("BASE_URL" in name or "MODEL" in name for name in found.environment)


def test_a_harness_on_the_socket_needs_no_forwarder() -> None:
    found = orders("reference", {})
    assert found.forward == () and found.environment["ASSAY_MODEL_SOCKET"] == "/gw/model.sock"
    assert found.environment["HOME"] == "/assay/records/home"


def test_two_arms_that_differ_in_name_give_the_same_orders() -> None:
    one = orders("reference", {"prompt_suffix": "x"}, arm="control")
    assert one == orders("reference", {"prompt_suffix": "x"}, arm="treatment")
    assert replace(one, environment={}) == replace(orders("reference", {}, arm="control"), environment={})
    assert "treatment-model" not in repr(one)
