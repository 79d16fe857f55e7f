"""Live decisions made again: each prefix cut from the trace, each detector asked once more, each action found on the
wire.

Rules:
1. A row of a decision record names a turn, a length and a digest. The trace's first `length` bytes have that digest,
   end with a row, and hold no row of a later turn.
2. With the same detector code the same prefix gives the same decision (a model's reply is taken from the record);
   with other code the decision is counted, not made again.
3. Every applied note is on the wire, and every note on the wire was decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cells.artifacts.decision_rows import DEBUG, LEDGER, MODEL_CALLS, ROWS, DecisionRow
from cells.artifacts.live_readers import TRACE, arm_detectors, detector_reader, own_settings
from cells.audit.findings import Violation
from cells.audit.records import LiveRecord
from cells.detection.judgement import Detector, Hit, Question
from cells.detection.registry import code_digest, make
from cells.detection.schedule import ArmDetector
from cells.errors import EvidenceError, UsageError
from cells.evidence.files import read_json, read_regular
from cells.recording.prefix import Prefix, holds_nothing_after, prefix_at

Row = Mapping[str, Any]


@dataclass
class DecisionAudit:
    """What was found about the decisions of one attempt."""

    decisions: int = 0
    recomputed: int = 0
    actions: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)


def audit_decisions(root: Path, record: LiveRecord) -> DecisionAudit:
    """All decisions of an attempt."""
    found = DecisionAudit()
    try:
        rows = {name: _rows(root / name, kind) for name, kind in ROWS.items()}
        arm = _arm(root)
    except (EvidenceError, UsageError) as error:
        found.violations.append(Violation("record_broken", LEDGER, str(error)))
        return found
    for name, lines in rows.items():
        found.violations += [one for line in lines for one in _prefix_violations(name, line, record)]
    found.decisions = len(rows[LEDGER])
    for line in rows[DEBUG]:
        found.violations += _made_again(line, rows[MODEL_CALLS], arm, record, found)
    _audit_actions(rows[LEDGER], record, found)
    return found


def _rows(path: Path, kind: type[DecisionRow]) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(read_regular(path).splitlines(), start=1):
        try:
            row = kind.model_validate_json(line).model_dump(mode="json")
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise EvidenceError(f"{path.name}:{number}: {where}: {first['msg']}") from error
        if row["seq"] != number:
            raise EvidenceError(f"{path.name}:{number}: expected decision {number}, found {row['seq']}")
        rows.append(row)
    return rows


def _arm(root: Path) -> dict[str, ArmDetector]:
    spec = read_json(root / "start/spec.json")
    arm = spec.get("arm") if isinstance(spec, dict) else None
    return arm_detectors((arm.get("detectors") if isinstance(arm, dict) else None) or {})


def _prefix_violations(name: str, row: Row, record: LiveRecord) -> Iterator[Violation]:
    where = f"{name}:{row['seq']}"
    try:
        prefix = _prefix(row, record)
    except EvidenceError as error:
        yield Violation("prefix_differs", where, str(error))
        return
    if prefix.digest != row["prefix"].get("digest"):
        yield Violation("prefix_differs", where, f"the first {prefix.length} bytes of the trace have another digest")
    if not holds_nothing_after(prefix, row["turn"]):
        yield Violation("later_row", where, f"the prefix of a decision about turn {row['turn']} holds a later row")


def _prefix(row: Row, record: LiveRecord) -> Prefix:
    length = row["prefix"].get("length")
    if not isinstance(length, int):
        raise EvidenceError("the decision names no length")
    return prefix_at(record.trace, length)


def _made_again(
    row: Row, calls: Sequence[Row], arm: Mapping[str, ArmDetector], record: LiveRecord, found: DecisionAudit
) -> Iterator[Violation]:
    """The decision of one explained row, made from its prefix alone."""
    where = f"{DEBUG}:{row['seq']}"
    section = arm.get(row["detector"])
    if section is None:
        yield Violation("decision_differs", where, f"the arm has no detector {row['detector']!r}")
        return
    detector = make(section.name, own_settings(section.settings))
    fields = detector_reader(detector, section.settings).fields[TRACE]
    if not _names(row.get("fields")) <= fields:
        more = ", ".join(sorted(_names(row.get("fields")) - fields))
        yield Violation("field_not_named", where, f"it read {more}, which it does not name")
    if row.get("code") != code_digest():
        return
    try:
        prefix = _prefix(row, record)
    except EvidenceError:  # said already
        return
    rows = [{key: line[key] for key in line if key in fields} for line in prefix.rows]
    decision = section.action if _judged(detector, rows, row, calls) else "none"
    found.recomputed += 1
    if decision != row.get("decision"):
        yield Violation("decision_differs", where, f"recorded {row.get('decision')}; its prefix gives {decision}")


def _judged(detector: Detector, rows: list[dict[str, Any]], row: Row, calls: Sequence[Row]) -> Hit | None:
    judged = detector.judge(rows, row["turn"])
    if not isinstance(judged, Question):
        return judged
    same = [call for call in calls if (call["turn"], call["detector"]) == (row["turn"], row["detector"])]
    reply = same[0].get("reply") if same else None
    if not isinstance(reply, dict) or reply.get("error") is not None or not isinstance(reply.get("text"), str):
        return None
    return detector.judge_reply(rows, row["turn"], reply["text"])


def _audit_actions(ledger: Sequence[Row], record: LiveRecord, found: DecisionAudit) -> None:
    applied = [row for row in ledger if row.get("applied")]
    for row in applied:
        kind = str((row.get("action") or {}).get("kind"))
        found.actions[kind] = found.actions.get(kind, 0) + 1
    decided = [(row["turn"], str(row["action"].get("note_sha256"))) for row in applied if _kind(row) == "note"]
    on_wire = record.first_notes()
    for turn, digest in sorted(set(on_wire) - set(decided)):
        detail = f"a note after turn {turn} is on the wire ({digest}); no decision of the ledger made it"
        found.violations.append(Violation("note_without_decision", "live/wire.jsonl", detail))
    for turn, digest in sorted(set(decided) - set(on_wire)):
        detail = f"the ledger applied a note after turn {turn} ({digest}); it is not on the wire"
        found.violations.append(Violation("action_differs", LEDGER, detail))


def _names(value: Any) -> set[str]:
    return {str(one) for one in value} if isinstance(value, list) else set()


def _kind(row: Row) -> Any:
    return (row.get("action") or {}).get("kind")
