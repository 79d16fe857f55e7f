"""Order and integrity: start/ unchanged since the start, live/ since the seal, post/ after it and chained to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cells.artifacts.members import digest_regular, member_names
from cells.artifacts.seals import JOURNAL, LIVE_SEAL, START_SEAL, changed_members, journal_rows, read_seal
from cells.audit.findings import Violation
from cells.errors import EvidenceError
from cells.evidence.digest import digest_bytes
from cells.evidence.files import read_regular


def audit_seals(root: Path) -> tuple[dict[str, Any] | None, list[Violation]]:
    """The live seal where there is one, and what breaks either seal."""
    violations = list(_phase(root, "start"))
    live = root / LIVE_SEAL
    if not live.exists() and not live.is_symlink():
        if (root / "post").exists():
            violations.append(Violation("post_before_seal", "post", "there is a post/ and no live/SEAL.json"))
        return None, violations
    violations += _phase(root, "live")
    try:
        seal = read_seal(root, "live")
        if seal["previous"] != digest_regular(root / START_SEAL):
            detail = "it continues another start seal than the one beside it"
            violations.append(Violation("seal_broken", LIVE_SEAL, detail))
    except EvidenceError:
        return None, violations
    return seal, violations


def audit_post(root: Path) -> list[Violation]:
    """Whether every post-run file was written by somebody who held the live seal, and is what was written."""
    names = [name for name in member_names(root, "post") if name != JOURNAL]
    if not names and not (root / JOURNAL).exists():
        return []
    try:
        rows = list(_chained(read_regular(root / JOURNAL), digest_regular(root / LIVE_SEAL)))
    except EvidenceError as error:
        return [Violation("post_not_chained", JOURNAL, str(error))]
    written = {str(row.get("name")): str(row.get("digest")) for row in rows}
    unchained = [name for name in names if written.get(name) != digest_regular(root / name)]
    gone = sorted(set(written) - set(names))
    return [Violation("post_not_chained", name, "not the file that the journal names") for name in unchained] + [
        Violation("post_not_chained", name, "the journal names it; it is not there") for name in gone
    ]


def _phase(root: Path, phase: str) -> Iterator[Violation]:
    kind = f"{phase}_changed"
    try:
        seal = read_seal(root, phase)
        for problem in changed_members(root, phase, seal):
            path, _, detail = problem.partition(": ")
            yield Violation(kind, path, detail)
    except EvidenceError as error:
        yield Violation("seal_broken", f"{phase}/SEAL.json", str(error))


def _chained(content: bytes, seal_digest: str) -> Iterator[Mapping[str, Any]]:
    previous = seal_digest
    for number, line in enumerate(journal_rows(content)):
        row = json.loads(line)
        if row.get("prev") != previous or row.get("seq") != number:
            raise EvidenceError(f"row {number} does not continue {previous}: not written after the seal")
        previous = digest_bytes(line)
        yield row
