"""Export and restore: one deterministic file or a bag that others accept; restored only when every byte is proved."""

from __future__ import annotations

import io
import logging
import os
import shutil
import tarfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import bagit
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cells.errors import ConflictError, EvidenceError
from cells.evidence.digest import canonical_json
from cells.evidence.lifecycle.archive_file import archive_members
from cells.evidence.lifecycle.export import export, study_index
from cells.evidence.lifecycle.export_index import carrier, is_carrier, parse_index
from cells.evidence.lifecycle.proof import drain, read_export
from cells.evidence.lifecycle.restore import restore, restore_bundle
from cells.evidence.policy import NotPermitted
from cells.evidence.removal import remove_tree
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import documents, specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import verify_path

TODAY = date(2026, 6, 1)


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=2)


def exported(store: StudyStore, tmp_path: Path, name: str = "s.tar.zst", *, bag: bool = False) -> Path:
    return export(store, tmp_path / name, bag=bag, today=TODAY).path


def elsewhere(tmp_path: Path) -> StudiesRoot:
    return StudiesRoot.ensure(tmp_path / "other")


@pytest.mark.requirement(44)
@pytest.mark.requirement(45)
@pytest.mark.parametrize("bag", [False, True])
def test_a_study_comes_back_whole_under_another_root(store: StudyStore, tmp_path: Path, bag: bool) -> None:
    accepted = {unit.path: unit.digest for unit in store.accepted().values()}
    back = restore(exported(store, tmp_path, "x", bag=bag), elsewhere(tmp_path))
    assert {unit.path: unit.digest for unit in back.accepted().values()} == accepted
    assert back.id == store.id
    assert verify_path(back.root.path).problems == []
    assert back.ledger.rows()[-1].kind == "restored"
    assert [row.kind for row in store.ledger.rows()][-1] == "exported"


def test_the_same_study_gives_the_same_bytes(store: StudyStore, tmp_path: Path) -> None:
    index = study_index(store)
    one = exported(store, tmp_path, "one")
    assert study_index(store).to_bytes() != index.to_bytes(), "the exported row itself belongs to the next export"
    twin = tmp_path / "twin"
    shutil.copytree(store.root.path, twin)
    two = exported(StudyStore.open(StudiesRoot.open(twin), "s"), tmp_path, "two")
    three = exported(store, tmp_path, "three")
    assert two.read_bytes() != one.read_bytes()
    assert two.read_bytes() == three.read_bytes()


def test_a_bag_is_accepted_by_the_bagit_package_itself(store: StudyStore, tmp_path: Path) -> None:
    logging.getLogger("bagit").setLevel(logging.ERROR)
    made = exported(store, tmp_path, "bag", bag=True)
    assert bagit.Bag(str(made)).validate()
    assert verify_path(made).kind == "bag"
    assert verify_path(made).ok


def test_an_archive_can_be_verified_where_it_lies(store: StudyStore, tmp_path: Path) -> None:
    report = verify_path(exported(store, tmp_path))
    assert (report.kind, report.ok, report.checked) == ("archive", True, 2)


def test_one_bundle_can_travel_alone(store: StudyStore, tmp_path: Path) -> None:
    unit = next(iter(store.accepted().values()))
    export(store, tmp_path / "one.tar.zst", unit=unit, today=TODAY)
    assert verify_path(tmp_path / "one.tar.zst").ok
    with pytest.raises(EvidenceError, match="holds a bundle"):
        restore(tmp_path / "one.tar.zst", elsewhere(tmp_path))
    back = restore_bundle(tmp_path / "one.tar.zst", tmp_path / "bundle")
    assert verify_path(back).ok
    with pytest.raises(ConflictError):
        restore_bundle(tmp_path / "one.tar.zst", tmp_path / "bundle")


def test_frozen_tasks_travel_with_their_links_and_execute_bits(tmp_path: Path) -> None:
    def tasks(draft: Path) -> None:
        (draft / "tasks/t/repo/void").mkdir(parents=True)
        (draft / "tasks/t/repo/run.sh").write_bytes(b"#!/bin/sh\n")
        (draft / "tasks/t/repo/run.sh").chmod(0o755)
        (draft / "tasks/t/repo/link").symlink_to("../../../../../etc/passwd")
        Path(os.fsdecode(os.fsencode(draft) + b"/tasks/t/repo/odd \xff=%\n")).write_bytes(b"x")

    store = StudyStore.create(StudiesRoot.ensure(tmp_path / "studies"), "s", documents("s"), populate=tasks)
    for number, bag in enumerate((False, True)):
        back = restore(exported(store, tmp_path, f"x{number}", bag=bag), elsewhere(tmp_path), f"s{number}")
        StudyStore.open(back.root, back.name, frozen=True)
        assert os.readlink(back.path / "tasks/t/repo/link") == "../../../../../etc/passwd"
        assert verify_path(back.path).problems == []


@pytest.mark.requirement(44)
def test_evidence_that_does_not_verify_is_not_exported(store: StudyStore, tmp_path: Path) -> None:
    victim = store.bundle(next(iter(store.accepted().values()))) / "live/trace.jsonl"
    victim.chmod(0o640)
    victim.write_bytes(b"{}\n")
    with pytest.raises(EvidenceError, match="only what verifies"):
        exported(store, tmp_path)
    assert not (tmp_path / "s.tar.zst").exists()


@pytest.mark.requirement(47)
@pytest.mark.parametrize(
    ("change", "public", "reason"),
    [
        ({"may_publish": False}, True, "may_publish is false"),
        ({"privacy": "restricted"}, True, "privacy is restricted"),
        ({"licence": None}, True, "no licence"),
        ({"retention": "2026-05-31"}, False, "retention ended"),
        ({"unknown": 1}, False, "unknown keys"),
        ({"privacy": "secret"}, False, "privacy is one of"),
        ({"v": 2}, False, "version 2"),
    ],
)
def test_a_valid_bundle_does_not_leave_without_permission(
    store: StudyStore, tmp_path: Path, change: dict[str, object], public: bool, reason: str
) -> None:
    policy = {"v": 1, "licence": "MIT", "privacy": "public", "retention": None, "may_publish": True}
    (store.path / "policy.json").chmod(0o640)
    (store.path / "policy.json").write_bytes(canonical_json(policy | change))
    assert verify_path(store.path).ok
    with pytest.raises((NotPermitted, EvidenceError), match=reason):
        export(store, tmp_path / "x", public=public, today=TODAY)
    assert not (tmp_path / "x").exists()
    assert [row.kind for row in store.ledger.rows()].count("exported") == 0


def test_a_move_needs_no_permission_to_publish(store: StudyStore, tmp_path: Path) -> None:
    (store.path / "policy.json").chmod(0o640)
    policy = {"v": 1, "licence": None, "privacy": "restricted", "retention": "2026-06-01", "may_publish": False}
    (store.path / "policy.json").write_bytes(canonical_json(policy))
    assert exported(store, tmp_path).exists()


def test_an_export_never_replaces_a_file(store: StudyStore, tmp_path: Path) -> None:
    (tmp_path / "s.tar.zst").write_bytes(b"precious")
    with pytest.raises(ConflictError):
        exported(store, tmp_path)
    assert (tmp_path / "s.tar.zst").read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.tar.zst", "studies"]


Change = Callable[[list[tuple[tarfile.TarInfo, bytes]]], list[tuple[tarfile.TarInfo, bytes]]]


def rewritten(path: Path, change: Change, trailer: bytes = b"") -> Path:
    """The archive with its members changed: what somebody could send us."""
    with path.open("rb") as raw:
        plain = zstandard.ZstdDecompressor().stream_reader(raw).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member, content in change(members):
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    hostile = path.with_name("hostile.tar.zst")
    hostile.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(out.getvalue()) + trailer)
    return hostile


def planted(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


HOSTILE: dict[str, Change] = {
    "one member dropped": lambda members: [*members[:3], *members[4:]],
    "manifest dropped": lambda members: members[:-1],
    "index dropped": lambda members: members[1:],
    "a byte altered": lambda members: [*members[:2], (members[2][0], b"X" + members[2][1][1:]), *members[3:]],
    "a member twice": lambda members: [*members[:3], members[2], *members[3:]],
    "a member after the manifest": lambda members: [*members, members[2]],
    "dot dot": lambda members: [members[0], (tarfile.TarInfo("content/../../evil"), b"x"), *members[1:]],
    "absolute": lambda members: [members[0], (tarfile.TarInfo("/tmp/evil"), b"x"), *members[1:]],
    "unannounced": lambda members: [members[0], (tarfile.TarInfo("content/evil"), b"x"), *members[1:]],
    "device": lambda members: [members[0], planted("content/dev", tarfile.CHRTYPE), *members[1:]],
    "fifo": lambda members: [members[0], planted("content/fifo", tarfile.FIFOTYPE), *members[1:]],
    "symbolic link": lambda members: [members[0], planted("content/l", tarfile.SYMTYPE, "/etc"), *members[1:]],
    "hard link": lambda members: [
        members[0],
        planted("content/h", tarfile.LNKTYPE, "content/study.json"),
        *members[1:],
    ],
    "directory": lambda members: [members[0], planted("content/d", tarfile.DIRTYPE), *members[1:]],
    "sparse": lambda members: [members[0], planted("content/s", tarfile.GNUTYPE_SPARSE), *members[1:]],
    "empty": lambda members: [],
}


@pytest.mark.requirement(44)
@pytest.mark.parametrize("what", HOSTILE)
def test_a_changed_archive_is_refused_and_leaves_nothing(store: StudyStore, tmp_path: Path, what: str) -> None:
    hostile = rewritten(exported(store, tmp_path), HOSTILE[what])
    root = elsewhere(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*") if ".locks" not in path.parts)
    with pytest.raises(EvidenceError):
        restore(hostile, root)
    after = sorted(str(path) for path in tmp_path.rglob("*") if ".locks" not in path.parts)
    assert after == before
    assert not verify_path(hostile).ok


def test_bytes_after_the_archive_and_a_cut_archive_are_refused(store: StudyStore, tmp_path: Path) -> None:
    whole = exported(store, tmp_path)
    assert read_export(archive_members(rewritten(whole, lambda members: members)), drain).kind == "study"
    with pytest.raises(EvidenceError):
        restore(rewritten(whole, lambda members: members, trailer=b"more"), elsewhere(tmp_path))
    content = whole.read_bytes()
    for length in range(0, len(content), 251):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(EvidenceError):
            restore(tmp_path / "cut", elsewhere(tmp_path))


@pytest.mark.requirement(44)
def test_a_study_that_is_consistent_in_its_carrier_and_wrong_in_itself_is_not_restored(
    store: StudyStore, tmp_path: Path
) -> None:
    """Index and manifest of the carrier are right; the ledger inside was cut."""
    lines = (store.path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    forged = tmp_path / "forged"
    shutil.copytree(store.root.path, forged)
    (forged / "s/ledger.jsonl").write_bytes(b"".join(lines[:-1]))
    (forged / "s/latest.json").unlink()
    remove_tree(forged / "s/cells" / str(next(iter(store.accepted()))))
    from cells.evidence.lifecycle.archive_file import write_archive

    cut = StudyStore(StudiesRoot.open(forged), "s")
    write_archive(tmp_path / "forged.tar.zst", study_index(cut), cut.path, cut.fs)
    with pytest.raises(EvidenceError, match="not restored"):
        restore(tmp_path / "forged.tar.zst", elsewhere(tmp_path))


def test_an_index_that_writes_through_a_link_is_refused() -> None:
    entries = [
        {"path": "tasks/l", "kind": "link", "size": 0, "sha256": None, "executable": False, "target": "/etc"},
        {"path": "tasks/l/x", "kind": "file", "size": 1, "sha256": "0" * 64, "executable": False, "target": None},
    ]
    for hostile in (entries, [{**entries[0], "path": "cells/l"}], [{**entries[1], "path": "../x"}], entries[:1] * 2):
        with pytest.raises(EvidenceError):
            parse_index(canonical_json({"v": 1, "kind": "study", "facts": {}, "entries": hostile}))


def test_restoring_twice_is_a_conflict_and_another_name_helps(store: StudyStore, tmp_path: Path) -> None:
    archive = exported(store, tmp_path)
    restore(archive, elsewhere(tmp_path))
    with pytest.raises(ConflictError, match="--name"):
        restore(archive, elsewhere(tmp_path))
    assert restore(archive, elsewhere(tmp_path), "again").name == "again"


@given(st.binary(min_size=1, max_size=30).filter(lambda raw: b"\0" not in raw))
def test_carrier_names_are_plain_and_different_for_different_names(raw: bytes) -> None:
    name = carrier(os.fsdecode(raw))
    assert name.isascii() and name.isprintable() and " " not in name
    parts = raw.split(b"/")
    assert is_carrier(name) == all(part not in (b"", b".", b"..") for part in parts)
