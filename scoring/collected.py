"""What the collector said about a tree, as checked types: post/collect.json and the frames that it is made from.

Rule: names in a listing are percent-encoded; they are names of a cell, data only, never used as paths of the host.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cells.artifacts import Role
from cells.artifacts.conditions import Condition
from cells.attempt import SealedAttempt
from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json, digest_bytes
from cells.incell.trusted.names import decode_name

NAME = "post/collect.json"
TREE = "post/tree.tar.zst"
STATUS = "post/git.status.txt"
Oid = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Count = Annotated[int, Field(ge=0)]


class Row(BaseModel):
    """A checked table of the collector's answer: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Change(Row):
    """One difference between the base and the tree, in git's words and order. Modes are git's; the missing side is
    zeros."""

    path: Annotated[str, Field(min_length=1)]
    status: Literal["A", "D", "M", "T"]
    old_mode: str
    new_mode: str
    old: Oid
    new: Oid
    size: Count | None
    target: str | None
    ignored: bool = False

    @property
    def name(self) -> bytes:
        """The path's bytes."""
        return decode_name(self.path)


class LeftOut(Row):
    """Something in the work directory that is not part of the tree, and why."""

    path: str
    reason: str


class Facts(Row):
    """Body of the `facts` frame: the tree against its base. `over_cap` names the cap that ended the hashing."""

    base_tree: Oid
    tree: Oid | None
    over_cap: Literal["entries", "changes", "changed_bytes"] | None
    changes: tuple[Change, ...]
    changes_total: Count | None = None
    changed_bytes: Count | None = None
    files: Count | None = None
    directories: Count | None = None
    bytes: Count | None = None
    hard_linked: Count | None = None
    left_out: tuple[LeftOut, ...] = ()
    left_out_counts: dict[str, Count] = Field(default_factory=dict)
    ignored_known: bool = True
    """Whether the base's ignore rules could be asked; without them no new file counts as ignored."""


class RoundTrip(Row):
    """Whether base + patch is the tree: the patch applied in an index of its own, and the tree that came out."""

    ok: bool
    tree: Oid | None
    stderr: str


class StreamEnd(Row):
    """The `end` frame of a stream: bytes and sha256 (hex) of what was sent, and whether that is all there is."""

    bytes: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    complete: bool
    reason: str | None
    round_trip: RoundTrip | None = None


class Collected(Row):
    """post/collect.json: the whole of a collection; written last, so that it stands for all of its files."""

    v: Literal[1] = 1
    task: str
    facts: Facts
    patch: StreamEnd
    archive: StreamEnd
    files: dict[str, str]
    """Digest of each file of the collection, by name."""

    @property
    def is_empty(self) -> bool:
        """Whether the tree is still the base."""
        return self.facts.tree == self.facts.base_tree

    @property
    def over_cap(self) -> str | None:
        """The cap for which there is no patch, None when there is one."""
        return None if self.patch.complete else (self.facts.over_cap or self.patch.reason or "patch")

    @property
    def is_exact(self) -> bool:
        """Whether base + patch was proved to be the tree."""
        return self.patch.round_trip is not None and self.patch.round_trip.ok

    def as_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(self.model_dump(mode="json"))


def unfiltered_name(task: str) -> str:
    """Name of the unfiltered patch of a task."""
    return f"post/{task}.unfiltered.patch"


def filtered_name(task: str) -> str:
    """Name of the filtered patch of a task."""
    return f"post/{task}.patch"


def read_collected(sealed: SealedAttempt) -> Collected:
    """The finished collection of an attempt, its files re-verified; EvidenceError names what is missing or changed."""
    collected = Collected.model_validate_json(sealed.read(NAME, Role.SCORING, Condition.FINAL_TREE))
    for name, digest in collected.files.items():
        if not sealed.has(name) or digest_bytes(sealed.read(name, Role.AUDIT)) != digest:
            raise EvidenceError(f"{name}: not the file that {NAME} names ({digest})")
    return collected


def status_text(facts: Facts) -> bytes:
    """git.status.txt: one line a change, `XY path` as git's short status (`??` new, `!!` new and ignored), names
    encoded;
    then what was left out, as `-- path (reason)`."""
    lines = [f"{_letters(change)} {change.path}" for change in facts.changes]
    lines += [f"-- {entry.path} ({entry.reason})" for entry in facts.left_out]
    if facts.over_cap:
        lines.append(f"-- listing ended by the cap on {facts.over_cap}")
    return "".join(line + "\n" for line in lines).encode("ascii")


def _letters(change: Change) -> str:
    if change.status == "A":
        return "!!" if change.ignored else "??"
    return f" {change.status}"


def parse_facts(body: bytes) -> Facts:
    """The body of a `facts` frame; pydantic's ValidationError."""
    return Facts.model_validate_json(body)


def parse_end(header: dict[str, Any]) -> StreamEnd:
    """An `end` frame's header; pydantic's ValidationError."""
    fields = {key: value for key, value in header.items() if key not in ("type", "stream", "size")}
    return StreamEnd.model_validate(fields)
