"""Readers: the only way to open a run file, for a role.

Rules:
1. A live reader gets run-start files, and the prefix of a live file through the current turn, projected to the fields
   that its own contract names. Everything else raises `BoundaryViolation` with file, role, readiness and who may.
2. A conditional file is given to a live role only when our code can check every condition; to the other roles when
   they name the purpose that the row states.
3. A prefix ends before the first row of a later turn; a line without its newline is not a row; completed turns that do
   not grow are `EvidenceError` (another row that looks back, as a late result does, stands where it stands). A note
   decided about the turn, and the end of the session, came after it.
4. A study may narrow what a live reader names, never widen it (`ReaderContract.narrowed`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cells.artifacts.conditions import CheckedBy, Condition
from cells.artifacts.model import LIVE_ROLES, ContractError, Grant, Readiness, Role, Row, Scope
from cells.artifacts.table import CONTRACT, Contract
from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence.digest import digest_bytes
from cells.evidence.files import read_regular

_ANSWERED_BY_CONTRACT = {
    Condition.PREFIX_ONLY,
    Condition.PROJECTION_ONLY,
    Condition.NAMED_FIELDS,
    Condition.FIXED_SETUP_NAMED,
    Condition.FILE_NAMED,
    Condition.STATE_MODE,
    Condition.IN_BRANCH,
}


@dataclass(frozen=True)
class ReaderContract:
    """What one live reader names for itself: run-start files as fixed setup, and the fields of each live file."""

    name: str
    role: Role
    fixed_setup: frozenset[str] = frozenset()
    fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    in_branch: bool = False

    def __post_init__(self) -> None:
        if self.role not in LIVE_ROLES:
            raise ContractError(
                f"reader {self.name!r}: a live reader has role {', '.join(LIVE_ROLES)}; found {self.role}"
            )

    def narrowed(
        self, fields: Mapping[str, Iterable[str]] | None = None, fixed_setup: Iterable[str] | None = None
    ) -> ReaderContract:
        """The same reader with fewer files or fields; `ContractError` when it would name more than before."""
        kept_setup = self.fixed_setup if fixed_setup is None else frozenset(fixed_setup)
        kept = dict(self.fields) if fields is None else {name: frozenset(names) for name, names in fields.items()}
        wider = sorted(kept_setup - self.fixed_setup) + sorted(set(kept) - set(self.fields))
        wider += [f"{name}: {one}" for name in kept for one in sorted(kept[name] - self.fields.get(name, frozenset()))]
        if wider:
            raise ContractError(
                f"reader {self.name!r}: a study may narrow, never widen; found in addition {', '.join(wider)}"
            )
        return ReaderContract(self.name, self.role, kept_setup, kept, self.in_branch)


@dataclass(frozen=True)
class Prefix:
    """The rows of a file through a turn: what a live decision was made from."""

    turn: int
    rows: tuple[dict[str, Any], ...]
    length: int
    """Bytes from the start of the file."""
    digest: str
    """sha256 of exactly these bytes."""


class LiveReader:
    """What one live role may open of a running attempt."""

    def __init__(
        self,
        root: Path,
        reader: ReaderContract,
        contract: Contract = CONTRACT,
        scope: Scope = Scope.ATTEMPT,
    ) -> None:
        self._root, self._reader, self._contract, self._scope = root, reader, contract, scope

    def read(self, name: str) -> bytes:
        """A run-start file; `BoundaryViolation` for anything else."""
        row = self._contract.row_for(name, self._scope)
        self._refuse_unless(row, name, Readiness.RUN_START)
        if (
            Condition.FIXED_SETUP_NAMED in row.permissions[self._reader.role].conditions
            and name not in self._reader.fixed_setup
        ):
            raise refusal(
                row, name, self._reader.role, f"the contract of {self._reader.name!r} does not name it as fixed setup"
            )
        return read_regular(self._root / name)

    def prefix(self, name: str, turn: int, segment: int = 1) -> Prefix:
        """The projected rows through a turn of a live file."""
        row = self._contract.row_for(name, self._scope)
        self._refuse_unless(row, name, Readiness.LIVE_PREFIX)
        fields = self._reader.fields.get(name)
        if fields is None:
            raise refusal(row, name, self._reader.role, f"the contract of {self._reader.name!r} names no field of it")
        return cut_prefix(read_regular(self._root / name), turn, segment, fields)

    def _refuse_unless(self, row: Row, name: str, wanted: Readiness) -> None:
        role = self._reader.role
        permission = row.permissions[role]
        if permission.grant is Grant.NO or row.readiness_for(role) is not wanted:
            raise refusal(row, name, role)
        if missing := [one for one in permission.conditions if not self._answered(one)]:
            raise refusal(row, name, role, "; ".join(f"{one.word}: {one.meaning}" for one in missing))

    def _answered(self, condition: Condition) -> bool:
        if condition is Condition.IN_BRANCH:
            return self._reader.in_branch
        return condition in _ANSWERED_BY_CONTRACT


def read_sealed(
    root: Path, name: str, role: Role, purpose: Condition | None = None, contract: Contract = CONTRACT
) -> bytes:
    """A file of a sealed attempt for a post-run role; a conditional one needs the purpose that its row states."""
    row = contract.row_for(name)
    check_sealed_access(row, name, role, purpose)
    return read_regular(root / name)


def check_sealed_access(row: Row, name: str, role: Role, purpose: Condition | None = None) -> None:
    """`BoundaryViolation` unless the role may read the file of a sealed attempt (for the purpose)."""
    if role in LIVE_ROLES:
        raise refusal(row, name, role, "the attempt is sealed: a live role has nothing to read in it")
    permission = row.permissions[role]
    if permission.grant is Grant.NO:
        raise refusal(row, name, role)
    purposes = {one for one in permission.conditions if one.checked_by is CheckedBy.PURPOSE}
    if purposes and purpose not in purposes:
        allowed = ", ".join(sorted(f"Condition.{one.name} ({one.meaning})" for one in purposes))
        found = purpose.word if purpose else "none"
        raise refusal(row, name, role, f"it is conditional: name the purpose, one of {allowed}; found {found}")


def refusal(row: Row, name: str, role: Role, reason: str = "") -> BoundaryViolation:
    """The error of a refused read: what was asked by whom and when, when it is ready and for whom, and why not."""
    moment = "live-prefix" if role in LIVE_ROLES else "post-run"
    readers = ", ".join(row.readers()) or "nobody"
    text = f"artifact {name!r} asked by {role} at {moment}; ready {row.ready_words()}, for {readers}"
    return BoundaryViolation(f"{text}: {reason}" if reason else text)


def cut_prefix(content: bytes, turn: int, segment: int = 1, fields: Iterable[str] | None = None) -> Prefix:
    """The prefix of JSON lines through (segment, turn), rows projected to `fields` (None keeps all)."""
    rows, length, last, completed = [], 0, (1, -1), (1, -1)
    kept = None if fields is None else frozenset(fields)
    for line in content.split(b"\n")[:-1]:
        row = parse_row(line, length)
        here = position(row, last)
        if row.get("event") == "turn" and isinstance(row.get("turn"), int):
            if here <= completed:
                raise EvidenceError(f"prefix row at byte {length}: completed turns went from {completed} to {here}")
            completed = here
        here = max(here, last)
        if here > (segment, turn) or _came_after(row, here == (segment, turn)):
            break
        last, length = here, length + len(line) + 1
        rows.append(row if kept is None else {key: row[key] for key in row if key in kept})
    return Prefix(turn, tuple(rows), length, digest_bytes(content[:length]))


def _came_after(row: Mapping[str, Any], at_the_turn: bool) -> bool:
    """Whether only a later moment can have made the row: a note decided about this turn, the end of the session."""
    return row.get("event") == "session_end" or (row.get("event") == "injection" and at_the_turn)


def position(row: Mapping[str, Any], last: tuple[int, int]) -> tuple[int, int]:
    """(segment, turn) of a row; without a turn it stands where the row before does, in a new segment before turns."""
    segment = row.get("segment")
    here = segment if isinstance(segment, int) else last[0]
    turn = row.get("turn")
    if isinstance(turn, int):
        return (here, turn)
    return last if here == last[0] else (here, -1)


def parse_row(line: bytes, offset: int) -> dict[str, Any]:
    """A JSON object in a line; `EvidenceError` names the byte where it starts."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise EvidenceError(f"prefix row at byte {offset}: not JSON ({error})") from error
    if not isinstance(row, dict):
        raise EvidenceError(f"prefix row at byte {offset}: expected an object, found {type(row).__name__}")
    return row
