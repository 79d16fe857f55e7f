"""A bundle is exactly what its manifest says: set equality, digests, core set, canonical bytes, plain files only."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json
from cells.evidence.manifest import (
    CORE,
    MANIFEST,
    Statement,
    build_statement,
    core_problems,
    decode_name,
    encode_name,
    parse_statement,
    verify_bundle,
)
from cells.evidence.publish import publish


def staged(root: Path, members: dict[str, bytes]) -> Path:
    stage = root / "stage"
    for name, content in members.items():
        path = stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return stage


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A published note of three members, one of them empty."""
    stage = staged(tmp_path, {"a.json": b"{}", "deep/er/b.txt": b"text", "empty": b""})
    publish(stage, tmp_path / "bundle", build_statement(stage, "note", {"n": 1}))
    for directory in [tmp_path / "bundle", *(tmp_path / "bundle").rglob("*")]:
        directory.chmod(0o750 if directory.is_dir() else 0o640)
    return tmp_path / "bundle"


def kinds(bundle: Path) -> list[tuple[str, str]]:
    return [(problem.path, problem.kind) for problem in verify_bundle(bundle)]


def test_a_published_bundle_has_no_problem(bundle: Path) -> None:
    assert verify_bundle(bundle) == []


def test_the_manifest_is_an_in_toto_statement_in_canonical_bytes(bundle: Path) -> None:
    content = (bundle / MANIFEST).read_bytes()
    document = json.loads(content)
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert [subject["name"] for subject in document["subject"]] == ["a.json", "deep/er/b.txt", "empty"]
    assert all(set(subject["digest"]) == {"sha256"} for subject in document["subject"])
    assert canonical_json(document) == content


@pytest.mark.requirement(38)
@pytest.mark.parametrize("member", ["a.json", "deep/er/b.txt", "empty"])
def test_a_missing_member_is_named(bundle: Path, member: str) -> None:
    (bundle / member).unlink()
    assert (member, "missing") in kinds(bundle)


@pytest.mark.requirement(1)
def test_without_its_marker_a_directory_is_no_bundle(bundle: Path) -> None:
    (bundle / MANIFEST).unlink()
    assert kinds(bundle) == [(MANIFEST, "incomplete")]


@pytest.mark.requirement(39)
def test_an_extra_member_is_a_problem_too(bundle: Path) -> None:
    (bundle / "deep/extra").write_bytes(b"x")
    assert kinds(bundle) == [("deep/extra", "extra")]


def test_an_extra_empty_directory_is_a_problem(bundle: Path) -> None:
    (bundle / "deep/void").mkdir()
    assert kinds(bundle) == [("deep/void", "extra")]


def test_empty_directories_of_the_stage_belong_to_the_bundle(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"a": b"1"})
    (stage / "void").mkdir()
    publish(stage, tmp_path / "bundle", build_statement(stage, "note", {}))
    assert verify_bundle(tmp_path / "bundle") == []
    (tmp_path / "bundle").chmod(0o750)
    (tmp_path / "bundle/void").rmdir()
    assert kinds(tmp_path / "bundle") == [("void", "missing")]


def test_swapped_members_are_altered(bundle: Path) -> None:
    (bundle / "a.json").rename(bundle / "hold")
    (bundle / "deep/er/b.txt").rename(bundle / "a.json")
    (bundle / "hold").rename(bundle / "deep/er/b.txt")
    assert [kind for _, kind in kinds(bundle)] == ["altered", "altered"]


@pytest.mark.requirement(17)
def test_links_fifos_sockets_and_hard_links_are_refused(bundle: Path) -> None:
    (bundle / "link").symlink_to("a.json")
    (bundle / "linked_directory").symlink_to("deep")
    os.mkfifo(bundle / "fifo")
    os.link(bundle / "a.json", bundle / "hard")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(bundle / "s"))
        found = kinds(bundle)
    assert ("link", "link") in found and ("linked_directory", "link") in found
    assert ("fifo", "special") in found and ("s", "special") in found
    assert ("a.json", "hard_link") in found and ("hard", "hard_link") in found


def test_a_member_replaced_by_a_link_to_equal_bytes_is_refused(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"{}")
    (bundle / "a.json").unlink()
    (bundle / "a.json").symlink_to(tmp_path / "outside")
    assert ("a.json", "link") in kinds(bundle)


def test_a_link_as_the_bundle_itself_is_refused(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(bundle)
    assert kinds(tmp_path / "alias") == [("", "not_a_bundle")]


def test_a_manifest_that_is_not_canonical_is_refused(bundle: Path) -> None:
    content = (bundle / MANIFEST).read_bytes()
    (bundle / MANIFEST).write_bytes(json.dumps(json.loads(content)).encode())
    assert kinds(bundle) == [(MANIFEST, "manifest")]


def test_a_change_of_the_ids_alone_is_seen_without_a_ledger(bundle: Path) -> None:
    content = (bundle / MANIFEST).read_bytes()
    (bundle / MANIFEST).write_bytes(content.replace(b'"n":1', b'"n":2'))
    assert kinds(bundle) == [(MANIFEST, "manifest")]


@pytest.mark.requirement(32)
def test_a_newer_version_is_refused_by_name(bundle: Path) -> None:
    document = json.loads((bundle / MANIFEST).read_bytes())
    document["predicate"]["v"] = 2
    document["predicateType"] = "urn:assay:bundle:v2"
    (bundle / MANIFEST).write_bytes(canonical_json(document))
    assert kinds(bundle) == [(MANIFEST, "version")]


@pytest.mark.parametrize(
    "name", ["../escape", "/absolute", "a//b", "./a", "a/..", ""], ids=lambda name: name.replace("/", "_") or "empty"
)
def test_names_that_lead_out_of_a_bundle_are_refused(name: str) -> None:
    hostile = Statement("note", {name: "0" * 64}, {name: 1})
    with pytest.raises(EvidenceError, match="relative path"):
        parse_statement(hostile.to_bytes())


@pytest.mark.requirement(38)
def test_each_kind_refuses_to_be_built_without_its_core(tmp_path: Path) -> None:
    for kind, core in CORE.items():
        whole = {f"{name}origin.json" if name.endswith("/") else name for name in core}
        assert core_problems(kind, whole) == []
        for member in whole:
            assert core_problems(kind, whole - {member}), f"{kind} without {member}"


@pytest.mark.requirement(38)
def test_the_core_seven_of_an_attempt_are_the_seed_s() -> None:
    seven = {name.rpartition("/")[2] for name in CORE["attempt"] if not name.endswith("/")} | {MANIFEST}
    assert seven == {
        "spec.json",
        "plan.json",
        "trace.jsonl",
        "verify.json",
        "fingerprint.txt",
        "run_meta.json",
        "manifest.json",
    }


def test_an_incomplete_unit_is_not_staged_for_publication(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"start/spec.json": b"{}"})
    with pytest.raises(EvidenceError, match=r"incomplete attempt"):
        build_statement(stage, "attempt", {})


def test_a_link_in_the_stage_is_not_published(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"a": b"1"})
    (stage / "b").symlink_to("/etc/hostname")
    with pytest.raises(EvidenceError, match="symbolic link"):
        build_statement(stage, "note", {})


@pytest.mark.requirement(20)
@given(st.binary(min_size=1, max_size=40).filter(lambda raw: b"/" not in raw and b"\0" not in raw))
def test_every_name_survives_encoding(raw: bytes) -> None:
    name = os.fsdecode(raw)
    if name in (".", ".."):
        return
    encoded = encode_name(name)
    assert encoded.encode("utf-8")
    assert decode_name(encoded) == name


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_names_never_share_an_encoding(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


def test_names_that_are_not_utf8_are_members_like_others(tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    stage.mkdir()
    Path(os.fsdecode(os.fsencode(stage) + b"/bad\xff%")).write_bytes(b"x")
    publish(stage, tmp_path / "bundle", build_statement(stage, "note", {}))
    assert verify_bundle(tmp_path / "bundle") == []
    assert list(parse_statement((tmp_path / "bundle" / MANIFEST).read_bytes()).members) == ["bad%FF%25"]
