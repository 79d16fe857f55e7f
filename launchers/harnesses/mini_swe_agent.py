"""`mini-swe-agent` (PyPI), unchanged: its default model class and agent, its environment class `local` in the cell.

The program is started by `cells/incell/agent/mini_swe_agent.py`, which calls its own command line and says by exit code
how its agent ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from cells.incell.agent import MOUNT, RECORDS
from cells.outcome import Ended
from launchers.harnesses.protocol import (
    OPENAI_CHAT,
    Claims,
    Gather,
    HarnessExit,
    HarnessSettings,
    Launch,
    PlainHarness,
    ReadRecord,
)
from launchers.layers.layer import PYTHON

TRAJECTORY = "mini-swe-agent.traj.json"
NOT_SUBMITTED = 10
"""Exit status of the starter when the agent ended otherwise than by submitting."""


class MiniSweAgentSettings(HarnessSettings):
    """[arms.NAME] settings of `mini-swe-agent`."""

    step_limit: Annotated[int, Field(ge=0)] = 0
    """Its own limit of model calls; 0 is none, the cell's limits hold in any case."""
    command_timeout_s: Annotated[int, Field(gt=0)] = 30
    """Seconds after which it kills a command of its model."""
    config: Annotated[tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+=[^\x00]*$")], ...], Field(strict=False)] = ()
    """Further `key=value` rows for its `-c`, after its own mini.yaml: `model.model_kwargs.temperature=0`."""


class MiniSweAgent(PlainHarness):
    """The mini-SWE-agent."""

    name: ClassVar[str] = "mini-swe-agent"
    layer: ClassVar[str | None] = "mini-swe-agent"
    settings_model: ClassVar[type[HarnessSettings]] = MiniSweAgentSettings
    needs_model: ClassVar[bool] = True
    speaks: ClassVar[frozenset[str]] = frozenset({OPENAI_CHAT})
    needs_forwarder: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = True

    def command(self, launch: Launch) -> tuple[str, ...]:
        """Our starter, with the layer's Python; the prompt comes on stdin, since an argument has a largest size."""
        settings = launch.settings
        rows = [
            "mini.yaml",
            f"model.model_kwargs.api_base={launch.base_url}/v1",
            f"agent.step_limit={settings['step_limit']}",
            f"environment.timeout={settings['command_timeout_s']}",
            *settings["config"],
        ]
        options = [word for row in rows for word in ("-c", row)]
        options += ["--model", f"openai/{launch.model}", "--agent-class", "default", "--environment-class", "local"]
        options += ["--cost-limit", "0", "--output", f"{RECORDS}/{TRAJECTORY}"]
        return (*PYTHON, f"{MOUNT}/mini_swe_agent.py", *options)

    def environment(self, launch: Launch) -> Mapping[str, str]:
        """No questions, no prices, nothing fetched at the start."""
        return {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_GLOBAL_CONFIG_DIR": f"{RECORDS}/home/.config/mini-swe-agent",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
        }

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """Its trajectory."""
        return (Gather("records", TRAJECTORY),)

    def claims(self, read: ReadRecord) -> Claims | None:
        """Calls of its model and the usage of each answer, as the trajectory keeps them (format 1.1)."""
        try:
            document = json.loads(read(TRAJECTORY) or b"")
            answers = [message for message in document["messages"] if message.get("role") == "assistant"]
            usages = [message["extra"]["response"].get("usage") or {} for message in answers]
            return Claims(
                turns=int(document["info"]["model_stats"]["api_calls"]),
                tool_calls=sum(len(message.get("tool_calls") or ()) for message in answers),
                input_tokens=_sum([usage.get("prompt_tokens") for usage in usages]),
                output_tokens=_sum([usage.get("completion_tokens") for usage in usages]),
            )
        except (ValueError, KeyError, TypeError, AttributeError):  # the cell wrote it: it may be anything
            return None

    def ended(self, exit: HarnessExit) -> tuple[Ended, str]:
        """It completed when its agent submitted."""
        if exit.exit_code == NOT_SUBMITTED:
            return Ended.HARNESS_ERROR, "its agent ended without submitting; its trajectory says how"
        return super().ended(exit)


def _sum(counts: list[Any]) -> int | None:
    return sum(counts) if all(type(count) is int for count in counts) else None
