"""A bundle's members are parsed only after they were proved against manifest and ledger."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cells.errors import EvidenceError
from cells.evidence.reader import BundleReader
from cells.evidence.specimen import specimen_study
from cells.evidence.study_store import StudyStore

ROOT = Path(__file__).parents[3]


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=1)


def reader(store: StudyStore) -> BundleReader:
    (unit,) = store.accepted().values()
    return BundleReader.of(store.path, unit)


@pytest.mark.requirement(35)
def test_a_member_is_read_whole_and_proved(store: StudyStore) -> None:
    read = reader(store)
    assert read.document("post/verify.json")["verdict"] == "resolved"
    assert read.ids["verdict"] == "resolved" and read.kind == "attempt"
    assert read.has("run_meta.json") and not read.has("nothing")
    assert "start/spec.json" in read.names() and "manifest.json" not in read.names()


@pytest.mark.requirement(35)
def test_a_changed_an_unlisted_and_a_linked_member_are_refused_before_parsing(
    store: StudyStore, tmp_path: Path
) -> None:
    read = reader(store)
    (unit,) = store.accepted().values()
    bundle = store.bundle(unit)
    for path in (bundle, bundle / "post"):
        path.chmod(0o750)
    (bundle / "post/verify.json").chmod(0o640)
    whole = (bundle / "post/verify.json").read_bytes()
    (bundle / "post/verify.json").write_bytes(whole.replace(b"resolved", b"Resolved"))
    with pytest.raises(EvidenceError, match="not those that were published"):
        read.document("post/verify.json")
    (bundle / "extra.json").write_bytes(b"{}")
    with pytest.raises(EvidenceError, match="no member"):
        read.document("extra.json")
    (tmp_path / "twin").write_bytes(whole)
    (bundle / "post/verify.json").unlink()
    (bundle / "post/verify.json").symlink_to(tmp_path / "twin")
    with pytest.raises(EvidenceError, match="cannot be read"):
        read.document("post/verify.json")


@pytest.mark.requirement(35)
def test_another_manifest_than_the_ledger_binds_is_refused(store: StudyStore) -> None:
    (unit,) = store.accepted().values()
    with pytest.raises(EvidenceError, match="expected the bundle"):
        BundleReader(store.bundle(unit), "sha256:" + "0" * 64)


def raw_reads(module: Path) -> list[str]:
    """Calls that open a file by its path in a module: open(), .read_bytes(), .read_text()."""
    found = []
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if "files(" in ast.unparse(node.func):
                continue  # a resource of the package itself
            if name in ("read_bytes", "read_text") or (name == "open" and isinstance(node.func, ast.Name)):
                found.append(f"{module.relative_to(ROOT)}:{node.lineno}")
    return found


@pytest.mark.requirement(35)
def test_scoring_opens_no_bundle_by_path() -> None:
    """Post-run code reads evidence through readers that check what they read; other tools' files are no evidence of
    ours."""
    modules = [module for module in sorted((ROOT / "scoring").rglob("*.py")) if "interop" not in module.parts]
    found = [where for module in modules for where in raw_reads(module)]
    assert found == []
