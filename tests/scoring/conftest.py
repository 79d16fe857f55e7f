"""Fixtures of tests that need a real engine."""

from __future__ import annotations

from tests.scoring.engine_fixtures import calc, engine, sandboxes

__all__ = ["calc", "engine", "sandboxes"]
