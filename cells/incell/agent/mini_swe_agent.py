"""Starts mini-swe-agent's own command line with the prompt from stdin; exit 0 when its agent submitted, 10 when not.

Runs with the interpreter of the layer that holds mini-swe-agent.
"""

from __future__ import annotations

import importlib
import sys

NOT_SUBMITTED = 10


def main(options: list[str]) -> int:
    """Run it; the exit status."""
    app = importlib.import_module("minisweagent.run.mini").app  # it lies in the layer only
    task = sys.stdin.buffer.read().decode("utf-8", "replace")
    agent = app(["--task", task, *options], standalone_mode=False)
    last = agent.messages[-1] if agent.messages else {}
    status = (last.get("extra") or {}).get("exit_status")
    sys.stderr.write(f"mini-swe-agent: {status}\n")
    return 0 if status == "Submitted" else NOT_SUBMITTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
