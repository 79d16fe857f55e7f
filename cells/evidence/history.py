"""What a ledger says, read once: units published, attempts accepted, and everything that later rows did to them.

Rules (30-evidence 12-15, 25, 43, 46):
1. A history is derived; the ledger is the authority. The same rows give the same history.
2. A dispatch (an attempt, named by its path) is recorded once: a resend does not make a second one.
3. One accepted result per cell and one cell per result; a later `accepted` row must supersede the one before it.
4. A unit that was superseded, withdrawn, quarantined or purged stays named, with what happened to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cells.errors import ConflictError, EvidenceError
from cells.evidence.ledger import Row
from cells.evidence.roots import checked_path


@dataclass
class Unit:
    """One published unit: `path` relative to the study, `digest` of its manifest, `detail` of its published row."""

    path: str
    digest: str
    seq: int
    detail: dict[str, Any]
    superseded_by: str | None = None
    withdrawn: str | None = None
    quarantined: str | None = None
    purged: bool = False

    @property
    def kind(self) -> str:
        return str(self.detail.get("kind", "attempt"))

    @property
    def cell(self) -> str | None:
        """Directory name of its cell, as recorded."""
        found = self.detail.get("cell")
        return str(found) if found is not None else None

    @property
    def stands(self) -> bool:
        """Whether its bytes are where they were published."""
        return not self.purged and self.quarantined is None


@dataclass
class History:
    """The state of a study's evidence after the last row."""

    units: dict[str, Unit] = field(default_factory=dict)
    """path -> unit"""
    started: dict[str, dict[str, Any]] = field(default_factory=dict)
    """path of an attempt -> detail of its started row: the table of dispatches"""
    names: dict[str, set[str]] = field(default_factory=dict)
    """folder -> names that attempts and units below it ever had: numbers that are never given again"""
    by_digest: dict[str, str] = field(default_factory=dict)
    """digest -> path of the first unit published with it"""
    accepted: dict[str, str] = field(default_factory=dict)
    """cell directory -> path of its accepted attempt"""
    archived: set[str] = field(default_factory=set)
    """subjects that are archived: "." for the study, else a path"""
    labels: dict[str, set[str]] = field(default_factory=dict)
    purging: dict[str, dict[str, Any]] = field(default_factory=dict)
    """subjects whose purge began and did not end"""
    tombstones: set[str] = field(default_factory=set)
    """subjects whose purge ended"""
    consumed: list[Row] = field(default_factory=list)
    plans: list[Row] = field(default_factory=list)
    """the planned row and every revised row"""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> History:
        """Read rows in order."""
        history = cls()
        for row in rows:
            history.apply(row)
        return history

    def apply(self, row: Row) -> None:
        """Take one more row. EvidenceError for one that names a place outside the study, or lacks what its kind
        says."""
        step = _STEPS.get(row.kind)
        if step is None:
            return
        if row.subject != ".":
            checked_path(row.subject)
        try:
            step(self, row)
        except (KeyError, TypeError, AttributeError) as error:
            raise EvidenceError(f"ledger row {row.seq} ({row.kind}): without {error}") from error

    def unit(self, path: str) -> Unit:
        """The unit published at a path; ConflictError when the ledger never saw it."""
        try:
            return self.units[path]
        except KeyError:
            raise ConflictError(f"{path}: the ledger has no published row for it") from None

    def newest(self, path: str) -> Unit:
        """The unit that readers are given for `path`: the end of its chain of successors (30-evidence 43)."""
        unit = self.unit(path)
        seen = {path}
        while unit.superseded_by is not None and unit.superseded_by not in seen:
            seen.add(unit.superseded_by)
            unit = self.unit(unit.superseded_by)
        return unit

    def accepted_units(self) -> dict[str, Unit]:
        """Cell directory -> accepted attempt whose bytes stand, each replaced by its successor."""
        found = {cell: self.newest(path) for cell, path in self.accepted.items()}
        return {cell: unit for cell, unit in found.items() if unit.stands}

    def purged(self, subject: str) -> bool:
        """Whether a study (`.`), cell or unit was purged."""
        parents = {subject, *(subject[:at] for at, letter in enumerate(subject) if letter == "/"), "."}
        return bool(self.tombstones & parents)

    def is_being_purged(self, path: str) -> bool:
        """Whether a purge of it, or of what holds it, began and did not end."""
        return any(one == "." or f"{path}/".startswith(f"{one}/") for one in self.purging)

    def derived_from(self, path: str) -> list[Unit]:
        """Units that were made from this one (their `source` is its digest), and what was made from those."""
        found: list[Unit] = []
        sources = {self.unit(path).digest}
        for unit in sorted(self.units.values(), key=lambda one: one.seq):
            if unit.detail.get("source") in sources and unit.path != path:
                sources.add(unit.digest)
                found.append(unit)
        return found

    def lost_claims(self) -> dict[str, str]:
        """Path -> why it may back no claim any more: withdrawn, or made from something withdrawn, quarantined or
        purged."""
        lost: dict[str, str] = {}
        by_digest: dict[str, str] = {}
        for unit in sorted(self.units.values(), key=lambda one: one.seq):
            source = by_digest.get(str(unit.detail.get("source")))
            reason = self._own_loss(unit) or (source and f"made from {source}")
            if reason:
                lost[unit.path] = reason
                by_digest[unit.digest] = f"{unit.path} ({reason})"
        return lost

    def _own_loss(self, unit: Unit) -> str | None:
        if unit.withdrawn is not None:
            return f"withdrawn: {unit.withdrawn}"
        if unit.quarantined is not None:
            return f"in quarantine: {unit.quarantined}"
        return "purged" if unit.purged else None

    def _name(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self.names.setdefault(folder, set()).add(name)

    def _planned(self, row: Row) -> None:
        self.plans.append(row)

    def _started(self, row: Row) -> None:
        self.started[row.subject] = row.detail
        self._name(row.subject)

    def _published(self, row: Row) -> None:
        self.units.setdefault(row.subject, Unit(row.subject, str(row.digest), row.seq, row.detail))
        self.by_digest.setdefault(str(row.digest), row.subject)
        self._name(row.subject)

    def _accepted(self, row: Row) -> None:
        self.accepted[str(row.detail["cell"])] = row.subject

    def _consumed(self, row: Row) -> None:
        self.consumed.append(row)

    def _superseded(self, row: Row) -> None:
        self.unit(row.subject).superseded_by = str(row.detail["by"])

    def _withdrawn(self, row: Row) -> None:
        self.unit(row.subject).withdrawn = str(row.detail["reason"])

    def _quarantined(self, row: Row) -> None:
        self._name(row.subject.removeprefix(".stage/").removesuffix(".abandoned"))
        if row.subject in self.units:
            self.units[row.subject].quarantined = str(row.detail["kept"])

    def _archived(self, row: Row) -> None:
        self.archived.add(row.subject)

    def _unarchived(self, row: Row) -> None:
        self.archived.discard(row.subject)

    def _labelled(self, row: Row) -> None:
        labels = self.labels.setdefault(row.subject, set())
        labels.update(row.detail.get("add", ()))
        labels.difference_update(row.detail.get("remove", ()))

    def _purging(self, row: Row) -> None:
        self.purging[row.subject] = row.detail

    def _purged(self, row: Row) -> None:
        self.purging.pop(row.subject, None)
        self.tombstones.add(row.subject)
        for path, unit in self.units.items():
            if row.subject == "." or path == row.subject or path.startswith(row.subject + "/"):
                unit.purged = True


_STEPS = {
    "planned": History._planned,
    "revised": History._planned,
    "started": History._started,
    "published": History._published,
    "accepted": History._accepted,
    "consumed": History._consumed,
    "superseded": History._superseded,
    "withdrawn": History._withdrawn,
    "quarantined": History._quarantined,
    "archived": History._archived,
    "unarchived": History._unarchived,
    "labelled": History._labelled,
    "purging": History._purging,
    "purged": History._purged,
}
