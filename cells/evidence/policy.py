"""policy.json: permission, which is not integrity. Licences, privacy class, retention, may-publish.

Rules (30-evidence 46, 47):
1. A valid manifest proves nothing about permission; an export checks both and refuses without it.
2. The policy may change while evidence stands; what it said when the study was planned stays in the ledger's first row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.design_binding import POLICY
from cells.evidence.digest import digest_bytes
from cells.evidence.fs import FileSystem, read_plain
from cells.evidence.fs_real import REAL
from cells.evidence.ledger import Row

VERSION = 1
PRIVACY = ("public", "internal", "restricted")
_FIELDS = {"v", "licence", "privacy", "retention", "may_publish"}


@dataclass(frozen=True)
class Policy:
    """What may be done with a study. `retention` is a date (YYYY-MM-DD) after which the evidence must go, or None."""

    licence: str | None
    privacy: str
    retention: str | None
    may_publish: bool

    def expired(self, today: date) -> bool:
        """Whether the retention has ended."""
        return self.retention is not None and date.fromisoformat(self.retention) < today


class NotPermitted(EvidenceError):
    """The evidence may be right; the policy does not let it leave."""


def read_policy(study: Path, fs: FileSystem = REAL) -> Policy:
    """The policy of a study; EvidenceError for one that is missing, damaged or of another version: nothing may leave
    then."""
    try:
        document = json.loads(read_plain(fs, study / POLICY))
        if document["v"] != VERSION:
            raise EvidenceError(f"{POLICY}: version {document['v']!r}; this version of Assay reads {VERSION}")
        unknown = document.keys() - _FIELDS
        policy = Policy(document["licence"], document["privacy"], document["retention"], document["may_publish"])
        if policy.retention is not None:
            date.fromisoformat(policy.retention)
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{POLICY}: not a policy ({type(error).__name__}: {error})") from error
    if unknown or policy.privacy not in PRIVACY or not isinstance(policy.may_publish, bool):
        raise EvidenceError(
            f"{POLICY}: unknown keys {sorted(unknown)} or values; privacy is one of {', '.join(PRIVACY)}"
        )
    return policy


def require_export(policy: Policy, *, public: bool, today: date) -> None:
    """NotPermitted, with the reason, when this evidence may not leave; `public` asks for publication, not only for a
    move."""
    if policy.expired(today):
        raise NotPermitted(
            f"{POLICY}: retention ended on {policy.retention}; withdraw or purge it, it may not be copied"
        )
    if not public:
        return
    if not policy.may_publish:
        raise NotPermitted(f"{POLICY}: may_publish is false; set it when you may, or export without --public")
    if policy.privacy != "public":
        raise NotPermitted(f"{POLICY}: privacy is {policy.privacy}; only public evidence is published")
    if policy.licence is None:
        raise NotPermitted(f"{POLICY}: no licence is named; nobody could use what is published")


def permission_of(study: Path, rows: Iterable[Row], fs: FileSystem = REAL) -> dict[str, Any]:
    """What `assay verify` says about permission; a policy that cannot be read permits nothing."""
    files = next((row.detail.get("files") for row in rows if row.kind == "planned"), None)
    planned = files.get(POLICY) if isinstance(files, dict) else None
    try:
        policy = read_policy(study, fs)
        digest = digest_bytes(read_plain(fs, study / POLICY))
    except EvidenceError as error:
        return {"may_publish": False, "reason": str(error)}
    return {**asdict(policy), "changed_since_plan": digest != planned}
