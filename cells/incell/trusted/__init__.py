"""Programs of ours that run inside the collector and the verifier container: standard library only, mounted read-only
at /assay/incell.

Rules:
1. Nothing here imports from outside this directory; inside a container the directory is the package `incell`.
2. A container of the agent never sees this directory.
3. A program speaks frames on its own stdin and stdout; no process of a candidate ever holds either.
"""

from __future__ import annotations

MOUNT = "/assay/incell"
"""Where this directory is mounted in a trusted container."""
VOLUME_ROOT = "/in"
"""Where the collector finds the agent's volume, read-only."""
_PYTHON = ("python3", "-I", "-S", "-B")
COLLECTOR_COMMAND = (*_PYTHON, f"{MOUNT}/collector.py")
"""argv of PID 1 of the collector: user 0:0, the capabilities below and no other, no network, the volume read-only at
/in."""
COLLECTOR_CAPABILITIES = ("DAC_OVERRIDE",)
COLLECTOR_TMP_MB = 192
"""MiB of /tmp that a collector needs for the objects of changed files, at the default caps."""
VERIFIER_COMMAND = (*_PYTHON, f"{MOUNT}/verifier.py")
"""argv of PID 1 of the verifier: user 0:0, the capabilities below and no other, no network, the work directory on a
tmpfs."""
VERIFIER_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
