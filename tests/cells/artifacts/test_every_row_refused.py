"""Generated over the whole table: no live role gets a post-run file, through any reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cells.artifacts import CONTRACT, Readiness, Role, Row, Scope
from cells.artifacts.access import LiveReader, ReaderContract, check_sealed_access
from cells.artifacts.model import LIVE_ROLES
from cells.errors import BoundaryViolation

POST_RUN = [row for row in CONTRACT if row.ready == {Readiness.POST_RUN}]
CASES = [(row, role) for row in POST_RUN for role in LIVE_ROLES]


def _name(row: Row) -> str:
    name = row.matcher.tail.replace("NNNN", "0001").replace("NNN", "001").replace("**", "x").replace("*", "x")
    return re.sub(r"<[^<>]+>", "x", name)


@pytest.mark.parametrize(("row", "role"), CASES, ids=lambda value: getattr(value, "pattern", str(value)))
def test_a_post_run_file_is_refused_to_a_live_role(row: Row, role: Role, tmp_path: Path) -> None:
    name = _name(row)
    everything = ReaderContract("greedy", role, frozenset({name}), {name: frozenset({"turn"})}, in_branch=True)
    reader = LiveReader(tmp_path, everything, scope=row.scope)
    for ask in (lambda: reader.read(name), lambda: reader.prefix(name, 10**6)):
        with pytest.raises(BoundaryViolation, match=rf"asked by {role} at live-prefix; ready post-run"):
            ask()
    with pytest.raises(BoundaryViolation, match=rf"asked by {role}"):
        check_sealed_access(row, name, role)


def test_the_generated_cases_cover_every_post_run_row_of_seed_and_ours() -> None:
    assert {row.seed_row for row in POST_RUN} >= {21, 22, 37, 38, 39, *range(41, 50)}
    assert {row.pattern for row in POST_RUN if row.scope is Scope.ATTEMPT} >= {
        "post/verify.json",
        "live/fingerprint.txt",
    }
