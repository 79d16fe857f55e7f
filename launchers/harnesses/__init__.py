"""Harnesses: one file each, and the registry that names them."""

from launchers.harnesses.protocol import Claims, Gather, Harness, HarnessExit, HarnessSettings, Launch, PlainHarness
from launchers.harnesses.registry import HARNESSES, SettingsError, check_settings, harness

__all__ = [
    "HARNESSES",
    "Claims",
    "Gather",
    "Harness",
    "HarnessExit",
    "HarnessSettings",
    "Launch",
    "PlainHarness",
    "SettingsError",
    "check_settings",
    "harness",
]
