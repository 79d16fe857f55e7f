"""The files of evidence as types, for JSON Schemas and for readers in other languages; the code that writes them is
tested against these.

Rules: every file has its version; unknown keys are errors, but where a comment says that more facts may stand.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
Hex = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class Closed(BaseModel):
    """A document whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class RootFile(Closed):
    """root.json of a studies root."""

    v: Literal[1]
    kind: Literal["studies-root"]
    id: str
    path: str
    created_at: str


class SubjectDigest(Closed):
    """The digest of one member."""

    sha256: Hex


class Subject(Closed):
    """One member of a bundle; names as in docs/evidence.md."""

    name: str
    digest: SubjectDigest


class Predicate(Closed):
    """What a bundle is. `ids` identify it and differ by kind."""

    checksum: Digest
    v: Literal[1]
    kind: Literal[
        "attempt", "lost_attempt", "verification", "score", "replay", "branch_point", "branch_attempt", "export", "note"
    ]
    ids: dict[str, Any]
    sizes: dict[str, Count]
    empty_directories: list[str]


class ManifestFile(Closed):
    """manifest.json: an in-toto Statement."""

    type: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    subject: list[Subject]
    predicateType: Literal["urn:assay:bundle:v1"]
    predicate: Predicate


class Binds(Closed):
    """What the invariant of a run binds; a member that does not exist is null."""

    trace: Digest | None
    fingerprint: Digest | None
    verify: Digest | None
    provenance: dict[str, Digest]
    runtime: Digest


class Invariant(Closed):
    """The invariant checksum: digest of `binds`."""

    binds: Binds
    sha256: Digest


class RunMetaFile(BaseModel):
    """run_meta.json; further facts (timings, counters, budget) may stand beside these."""

    model_config = ConfigDict(extra="allow", strict=True)

    v: Literal[1]
    study: str
    cell: str
    cell_id: Digest
    attempt: str
    verdict: Literal["resolved", "unresolved", "invalid", "not_run"]
    outcome: str
    runtime: dict[str, Any]
    runtime_sha256: Digest
    run_id: Digest
    invariant: Invariant


class DerivedFrom(Closed):
    """From how much of the ledger a derived file was made."""

    rows: Count
    head: Digest | None


class LatestUnit(Closed):
    """The latest accepted attempt."""

    path: str
    digest: Digest


class LatestFile(Closed):
    """latest.json: derived."""

    v: Literal[1]
    derived_from: DerivedFrom
    latest: LatestUnit | None


class CatalogUnit(Closed):
    """One unit of a catalog; `detail` is that of its published row."""

    path: str
    digest: Digest
    accepted: bool
    superseded_by: str | None
    withdrawn: str | None
    quarantined: str | None
    purged: bool
    detail: dict[str, Any]


class CatalogFile(Closed):
    """catalog.json: derived."""

    v: Literal[1]
    derived_from: DerivedFrom
    plan: Digest | None
    archived: list[str]
    labels: dict[str, list[str]]
    units: list[CatalogUnit]


class PolicyFile(Closed):
    """policy.json: permission."""

    v: Literal[1]
    licence: str | None
    privacy: Literal["public", "internal", "restricted"]
    retention: str | None
    may_publish: bool


class ReasonFile(Closed):
    """quarantine/<name>.<n>/reason.json"""

    v: Literal[1]
    path: str
    reason: str


class ExportEntry(Closed):
    """One entry of an export."""

    path: str
    kind: Literal["file", "link", "directory"]
    size: Count
    sha256: Hex | None
    executable: bool
    target: str | None


class ExportFile(Closed):
    """export.json, the first member of an export."""

    v: Literal[1]
    kind: Literal["study", "bundle"]
    facts: dict[str, Any]
    entries: list[ExportEntry]


SCHEMAS: dict[str, type[BaseModel]] = {
    "studies_root": RootFile,
    "manifest": ManifestFile,
    "run_meta": RunMetaFile,
    "latest": LatestFile,
    "catalog": CatalogFile,
    "policy": PolicyFile,
    "quarantine_reason": ReasonFile,
    "export": ExportFile,
}
"""Name -> type of the files of evidence (the ledger's row is `ledger.Row`)."""
