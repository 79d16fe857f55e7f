"""A problem that a check of evidence found: a value, not an exception; checking never stops at the first one."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Where (`path`), what (`kind`, a stable word) and why (`detail`, for people).

    Kinds of a bundle: not_a_bundle, incomplete, missing, extra, altered, link, hard_link, special, mount, manifest,
    version, seal,
    invariant, undeclared. Kinds of a study: study, root, plan, ledger, torn_tail, truncated, unledgered, lost,
    rewritten, sequence,
    quarantine, unreadable. Kinds of authenticity: signature, head.
    """

    path: str
    kind: str
    detail: str

    def as_json(self) -> dict[str, str]:
        """{"path", "kind", "detail"}"""
        return asdict(self)

    def below(self, prefix: str) -> Problem:
        """The same problem, its path seen from further up."""
        inner = "" if self.path in ("", ".") else f"/{self.path}"
        return Problem(f"{prefix}{inner}", self.kind, self.detail)
