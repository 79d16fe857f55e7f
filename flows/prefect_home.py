"""Where Prefect lives and how it is told to behave: a home of its own under the studies root, no analytics, quiet logs.

Rules (60-engines):
1. The settings are in the environment before Prefect is imported.
2. A user's own PREFECT_API_URL or profile is used only when the run says so (`--prefect-api-url`).
"""

from __future__ import annotations

import os
from pathlib import Path

_IDLE_SERVICES = (
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "REPOSSESSOR",
    "SCHEDULER",
    "TRIGGERS",
)
"""Loops for deployments, workers and automations, which a study has none of; they cost a tenth of a core while idle."""
_SERVICES = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _IDLE_SERVICES} | {
    # Rows of tasks and events in batches: 0.03 instead of 0.07 s of the server's processor time a cell.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "2",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "500",
}
STARTUP_S = 240
"""Prefect's own default of 20 s failed on a busy machine."""


def prefect_home(studies: Path) -> Path:
    """The directory of Prefect's database, logs and our server file."""
    return studies / ".prefect"


def prefect_environment(studies: Path, api_url: str | None) -> dict[str, str]:
    """The variables that Prefect must see; the caller's own PREFECT_* are not among them."""
    home = str(prefect_home(studies))
    settings = {
        "PREFECT_HOME": home,
        "PREFECT_PROFILES_PATH": f"{home}/profiles.toml",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(STARTUP_S),
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_CLI_COLORS": "false",
        **_SERVICES,
    }
    return settings | ({"PREFECT_API_URL": api_url} if api_url else {})


def enter_prefect(studies: Path, api_url: str) -> None:
    """Point this process at a server; call before the first import of Prefect."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    os.environ.update(prefect_environment(studies, api_url))
