"""What a harness is given when it starts: environment, files, stdin, ports. The same for every arm, task and cell.

It comes on top of the image's own environment, and names no arm, study, other cell or path of the host (20-interface,
"Study file").
"""

from __future__ import annotations

from cells.incell.agent import FILES, GATEWAY_SOCKET, RECORDS
from launchers.first_process import Orders
from launchers.harnesses.protocol import Harness, Launch
from launchers.live_request import LiveRequest
from launchers.start_files import model_of

PORT = 8377
"""Where the forwarder listens on the container's loopback."""
HOME = "/tmp/home"
PROMPT_NAME = "prompt.md"
_UNUSED = "unused"


def launch_of(request: LiveRequest, harness: Harness) -> Launch:
    """What the harness may know."""
    has_model = request.spec.arm.model is not None
    return Launch(
        settings=request.spec.arm.settings,
        prompt=request.task.prompt,
        workdir=request.image.workdir,
        model=model_of(request),
        input_limit=request.spec.arm.input_limit,
        base_url=f"http://127.0.0.1:{PORT}" if has_model and harness.needs_forwarder else None,
        socket=GATEWAY_SOCKET if has_model else None,
        images=tuple(f"{FILES}/images/{image.name}" for image in request.task.images),
        gold_patch=request.oracle_patch if harness.control == "oracle" else None,
    )


def orders_of(request: LiveRequest, harness: Harness) -> Orders:
    """The orders for the first process."""
    launch = launch_of(request, harness)
    files = {PROMPT_NAME: request.task.prompt}
    files |= {f"images/{image.name}": image.content for image in request.task.images}
    return Orders(
        command=harness.command(launch),
        environment={**_common(launch, harness), **harness.environment(launch)},
        workdir=launch.workdir,
        stdin=harness.stdin(launch),
        files=files,
        forward=((PORT, GATEWAY_SOCKET),) if launch.base_url is not None else (),
    )


def _common(launch: Launch, harness: Harness) -> dict[str, str]:
    environment = {
        "HOME": f"{RECORDS}/home" if harness.keeps_records else HOME,
        "LANG": "C.UTF-8",
        "USER": "agent",
        "PWD": launch.workdir,
        "ASSAY_WORKDIR": launch.workdir,
        "ASSAY_PROMPT_FILE": f"{FILES}/{PROMPT_NAME}",
    }
    if launch.images:
        environment["ASSAY_IMAGE_FILES"] = ":".join(launch.images)
    if launch.model is not None:
        environment["ASSAY_MODEL"] = launch.model
    if launch.socket is not None:
        environment["ASSAY_MODEL_SOCKET"] = launch.socket
    if launch.base_url is not None:
        environment |= {
            "OPENAI_BASE_URL": f"{launch.base_url}/v1",
            "OPENAI_API_KEY": _UNUSED,
            "ANTHROPIC_BASE_URL": launch.base_url,
            "ANTHROPIC_API_KEY": _UNUSED,
        }
    return environment
