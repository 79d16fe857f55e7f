"""`verify_path`: integrity, apart from authenticity, apart from permission; every damage of a study is found and
left as it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cells.evidence.catalog import catalog_document, read_catalog, rebuild
from cells.evidence.design_binding import tree_digest
from cells.evidence.digest import canonical_json
from cells.evidence.history import Unit
from cells.evidence.manifest import build_statement, read_statement
from cells.evidence.publish import publish
from cells.evidence.removal import remove_tree
from cells.evidence.run_meta import RunFacts, build_run_meta
from cells.evidence.specimen import Specimen, add_attempt, specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.units import source_of
from cells.evidence.verify import Expected, verify_path


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=2)


def first(store: StudyStore) -> Unit:
    return store.history().units[sorted(store.history().units)[0]]


def open_up(bundle: Path) -> None:
    """Make a published bundle writable: what a hand would do before it changes something."""
    for path in [bundle, *bundle.rglob("*")]:
        path.chmod(0o750 if path.is_dir() else 0o640)


def kinds(path: Path, **expected: Any) -> set[str]:
    return {problem.kind for problem in verify_path(path, Expected(**expected)).problems}


def test_a_whole_study_holds_and_so_do_its_root_and_its_bundles(store: StudyStore) -> None:
    for path, checked in ((store.path, 2), (store.root.path, 2), (store.bundle(first(store)), 1)):
        report = verify_path(path)
        assert (report.ok, report.checked, report.problems) == (True, checked, [])


def test_the_document_has_the_keys_that_checks_rely_on(store: StudyStore) -> None:
    document = verify_path(store.path).as_json()
    assert {"ok", "checked", "problems", "authenticity", "permission"} <= document.keys()
    (store.path / "cells/stray").write_bytes(b"")
    (problem,) = verify_path(store.path).as_json()["problems"]
    assert set(problem) == {"path", "kind", "detail"} and problem["path"] == "cells/stray"


def damage_member(store: StudyStore) -> None:
    open_up(store.bundle(first(store)))
    (store.bundle(first(store)) / "live/trace.jsonl").write_bytes(b"{}\n")


def lose_bundle(store: StudyStore) -> None:
    remove_tree(store.bundle(first(store)))


def plant_bundle(store: StudyStore) -> None:
    shutil.copytree(store.bundle(first(store)), store.path / "cells/planted/attempts/a001")


def edit_plan(store: StudyStore) -> None:
    (store.path / "plan.lock.json").chmod(0o640)
    (store.path / "plan.lock.json").write_bytes(b'{"v":1}')


def link_bundle(store: StudyStore) -> None:
    bundle = store.bundle(first(store))
    open_up(bundle)
    bundle.rename(store.path / "moved")
    bundle.symlink_to(store.path / "moved")


def cut_ledger(store: StudyStore) -> None:
    lines = (store.path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (store.path / "ledger.jsonl").write_bytes(b"".join(lines[:-1]))


def tear_ledger(store: StudyStore) -> None:
    with (store.path / "ledger.jsonl").open("ab") as stream:
        stream.write(b'{"at"')


DAMAGES: dict[str, Callable[[StudyStore], None]] = {
    "altered": damage_member,
    "lost": lose_bundle,
    "unledgered": plant_bundle,
    "plan": edit_plan,
    "not_a_bundle": link_bundle,
    "truncated": cut_ledger,
    "torn_tail": tear_ledger,
}


@pytest.mark.requirement(40)
@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_found_by_kind_and_the_check_changes_nothing(store: StudyStore, kind: str) -> None:
    DAMAGES[kind](store)
    before = tree_digest(store.path)
    assert kind in kinds(store.path)
    assert kind in kinds(store.root.path)
    assert tree_digest(store.path) == before


def rewrite(bundle: Path, name: str, content: bytes) -> None:
    """Change a member and everything in the bundle that depends on it, as somebody would who knows the format."""
    statement, _ = read_statement(bundle)
    copy = bundle.with_name("forged")
    shutil.copytree(bundle, copy)
    open_up(copy)
    (copy / "manifest.json").unlink()
    (copy / name).write_bytes(content)
    again = build_statement(copy, statement.kind, statement.ids)
    open_up(bundle)
    shutil.rmtree(bundle)
    publish(copy, bundle, again)


@pytest.mark.requirement(48)
def test_a_consistent_rewrite_of_member_and_manifest_is_caught_by_the_ledger(store: StudyStore) -> None:
    unit = first(store)
    rewrite(store.bundle(unit), "start/prompt.txt", b"another prompt")
    assert "rewritten" in kinds(store.path)
    assert "rewritten" in kinds(store.bundle(unit))


@pytest.mark.requirement(15)
@pytest.mark.requirement(21)
def test_a_rewrite_that_forgets_the_seal_or_the_invariant_is_caught_without_a_ledger(
    store: StudyStore, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(store.bundle(first(store)), alone)
    assert verify_path(alone).ok
    rewrite(alone, "start/prompt.txt", b"another prompt")
    assert kinds(alone) == {"seal"}
    rewrite(alone, "post/verify.json", canonical_json({"v": 1, "verdict": "unresolved"}))
    assert {"seal", "invariant"} <= kinds(alone)


@pytest.mark.requirement(36)
def test_a_spec_that_is_not_the_cell_is_caught(store: StudyStore, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(store.bundle(first(store)), alone)
    spec = json.loads((alone / "start/spec.json").read_bytes())
    rewrite(alone, "start/spec.json", canonical_json(spec | {"sample": 9}))
    assert {problem.path for problem in verify_path(alone).problems} >= {"start/spec.json"}


@pytest.mark.requirement(18)
def test_a_member_without_a_row_in_the_contract_is_undeclared(store: StudyStore, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(store.bundle(first(store)), alone)
    rewrite(alone, "notes.txt", b"x")
    assert kinds(alone) == {"undeclared"}


@pytest.mark.requirement(48)
def test_an_earlier_head_that_is_no_longer_known_is_a_problem(store: StudyStore) -> None:
    head = store.ledger.head
    with store.writing():
        add_attempt(store, Specimen(task="later"))
    assert verify_path(store.path, Expected(head)).authenticity["expected_head"] is True
    assert kinds(store.path, head="sha256:" + "0" * 64) == {"head"}
    assert kinds(store.root.path, head=head) == set()
    assert kinds(store.root.path, head="sha256:" + "0" * 64) == {"head"}


@pytest.mark.requirement(47)
def test_permission_is_reported_apart_and_decides_nothing(store: StudyStore) -> None:
    (store.path / "policy.json").chmod(0o640)
    (store.path / "policy.json").write_bytes(b"not a policy")
    report = verify_path(store.path)
    assert report.ok
    assert report.permission["may_publish"] is False


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, Path.touch, lambda path: os.mkfifo(path)])
def test_what_is_no_evidence_at_all_is_refused_with_the_reason(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    report = verify_path(tmp_path / "x")
    assert not report.ok and report.problems[0].detail


@pytest.mark.requirement(25)
@pytest.mark.requirement(26)
def test_the_catalog_is_rebuilt_to_the_same_bytes_and_needed_by_nobody(store: StudyStore) -> None:
    content = rebuild(store)
    latest = (store.path / "latest.json").read_bytes()
    for damaged in (None, b"{", b"[]"):
        for name in ("catalog.json", "latest.json"):
            (store.path / name).unlink()
            if damaged is not None:
                (store.path / name).write_bytes(damaged)
        assert read_catalog(store) == json.loads(content)
        assert verify_path(store.path).ok
        assert rebuild(store) == content
        assert (store.path / "latest.json").read_bytes() == latest


@pytest.mark.requirement(25)
def test_a_stale_catalog_is_not_believed(store: StudyStore) -> None:
    rebuild(store)
    with store.writing():
        add_attempt(store, Specimen(task="later"))
    assert len(read_catalog(store)["units"]) == 3
    assert verify_path(store.path).ok


def test_a_catalog_that_is_ahead_of_the_ledger_betrays_lost_rows(store: StudyStore) -> None:
    rebuild(store)
    cut_ledger(store)
    (store.path / "latest.json").unlink()
    assert kinds(store.path) == {"truncated"}


def test_the_catalog_is_a_function_of_the_rows(store: StudyStore) -> None:
    rows, head = store.ledger.rows(), store.ledger.head
    assert catalog_document(rows, head) == catalog_document(list(rows), head)


def test_a_run_s_identity_is_the_pair_of_cell_and_runtime(store: StudyStore) -> None:
    one, other = (json.loads((store.bundle(unit) / "run_meta.json").read_bytes()) for unit in store.accepted().values())
    assert one["runtime_sha256"] == other["runtime_sha256"]
    assert one["run_id"] != other["run_id"]
    assert one["cell_id"] != other["cell_id"]


def test_the_source_of_a_derived_observation_is_named_by_digest(store: StudyStore) -> None:
    unit = first(store)
    assert source_of(unit, patch="sha256:1")["bundle_sha256"] == unit.digest
    assert source_of(unit)["source"] == {"root": "study", "path": unit.path}


def test_run_meta_binds_what_lies_in_the_stage(tmp_path: Path, store: StudyStore) -> None:
    facts = RunFacts("s", "c", "sha256:0", "a001", "resolved", "completed", {"kernel": "6"})
    (tmp_path / "stage/live").mkdir(parents=True)
    before = build_run_meta(tmp_path / "stage", facts)
    (tmp_path / "stage/live/trace.jsonl").write_bytes(b"{}\n")
    after = build_run_meta(tmp_path / "stage", facts)
    assert json.loads(before)["invariant"]["binds"]["trace"] is None
    assert json.loads(before)["invariant"]["sha256"] != json.loads(after)["invariant"]["sha256"]
