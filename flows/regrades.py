"""Later verifications of accepted attempts: what a regrade found stands instead of the attempt's own verdict.

Rules:
1. Nothing is overwritten: the first verdict stays in the attempt's bundle, later ones are bundles of their own, joined
   by the digest of the attempt (30-evidence 8, 42).
2. Readers are given the newest; `verification` says which one that is (1: the attempt's own).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cells.evidence.history import History, Unit

REGRADED = (
    "verdict",
    "reason",
    "resolved",
    "f2p_passed",
    "f2p_total",
    "f2p_fraction",
    "p2p_passed",
    "p2p_total",
    "verify_s",
    "verification",
)
"""Columns that a later verification decides."""


def with_regrades(accepted: Mapping[str, Unit], history: History) -> dict[str, Unit]:
    """The accepted attempts, each with what its newest verification says."""
    newest: dict[str, Unit] = {}
    for unit in history.units.values():
        if unit.kind == "verification" and unit.stands and unit.withdrawn is None:
            source = str(unit.detail["source"])
            if source not in newest or unit.detail["verification"] > newest[source].detail["verification"]:
                newest[source] = unit
    return {cell: _regraded(unit, newest.get(unit.digest)) for cell, unit in accepted.items()}


def regraded_columns(unit: Unit) -> dict[str, Any]:
    """The columns of an attempt's row that a later verification decided; empty when there is none."""
    if unit.detail.get("verification", 1) == 1:
        return {}
    return {name: unit.detail[name] for name in REGRADED}


def _regraded(unit: Unit, later: Unit | None) -> Unit:
    if later is None:
        return unit
    return replace(unit, detail={**unit.detail, **{name: later.detail[name] for name in REGRADED}})
