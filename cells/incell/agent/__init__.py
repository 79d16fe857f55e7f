"""Programs of the agent container, mounted read-only at /assay/incell: the first process, the forwarder, the reference
harness.

Rules:
1. Standard library only, Python 3.9 or later; nothing here imports from outside this directory.
2. Nothing trusted after the run lies here, and nothing of a study: any process of the cell can read these files.
"""

from __future__ import annotations

MOUNT = "/assay/incell"
"""Where this directory is mounted in an agent container."""
GATEWAY_MOUNT = "/gw"
GATEWAY_SOCKET = f"{GATEWAY_MOUNT}/model.sock"
"""The cell's model, where the cell has one."""
RECORDS = "/assay/records"
"""Where a harness keeps its own record: a volume of its own, gathered after the kill. Only for harnesses with one."""
FILES = "/tmp/assay"
"""Folder of the files that the launcher hands in (the prompt, its images)."""
INIT_COMMAND = ("python3", "-I", "-S", "-B", f"{MOUNT}/init.py")
"""argv of PID 1 of an agent container."""
