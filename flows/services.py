"""Processes beside a run: the gateway of its cells, and the Prefect server that shows it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cells.design.matrix import PlannedCell
from cells.errors import InfraFailure
from flows import prefect_server
from launchers.gateway.client import GatewayProcess

_LEASE_S = 30.0


@contextmanager
def gateway_of(chosen: tuple[PlannedCell, ...]) -> Iterator[GatewayProcess | None]:
    """The gateway process of a run; None when no chosen cell has a model."""
    if all(cell.spec.arm.model is None for cell in chosen):
        yield None
        return
    # A socket's path may have 107 bytes: a short directory of our own, not one below the studies root.
    with tempfile.TemporaryDirectory(prefix="assay-") as run_dir:
        with GatewayProcess.start(Path(run_dir), key_names(chosen)) as gateway:
            yield gateway


def endpoint_down(gateway: GatewayProcess | None) -> str | None:
    """Which endpoint of a model does not answer, None when all do: a study must not spend its cells on it."""
    if gateway is None:
        return None
    try:
        down = [endpoint for endpoint in gateway.endpoints() if endpoint.down]
    except InfraFailure as failure:
        return f"the gateway is gone ({failure.detail})"
    if not down:
        return None
    return f"the endpoint {down[0].name} is down ({down[0].detail}); run the study again when it answers"


def key_names(chosen: tuple[PlannedCell, ...]) -> list[str]:
    """Names of the variables that hold the keys of the chosen cells' models."""
    models = [cell.spec.arm.model for cell in chosen if cell.spec.arm.model is not None]
    return sorted({str(model["api_key_env"]) for model in models if model.get("api_key_env")})


@contextmanager
def prefect_api(studies: Path, api_url: str | None) -> Iterator[str]:
    """The Prefect API of this run; a local server's lease is renewed while the run lasts."""
    if api_url is not None:
        yield api_url
        return
    server = prefect_server.start_server(studies)
    ended = threading.Event()
    lease = threading.Thread(target=_renew_lease, args=(studies, ended), daemon=True)
    lease.start()
    try:
        yield server.api_url
    finally:
        ended.set()
        lease.join()


def _renew_lease(studies: Path, ended: threading.Event) -> None:
    while not ended.wait(_LEASE_S):
        prefect_server.touch_lease(studies)
