"""Signatures over the ledger's head: made and checked offline, apart from what they sign, a witness even without a
key."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from cells.errors import UsageError
from cells.evidence.signature import sign_head
from cells.evidence.specimen import Specimen, add_attempt, specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import Expected, verify_path
from cells.evidence.verify_study import read_study


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=1)


def keys(place: Path, name: str) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = place / f"{name}.key", place / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def kinds(store: StudyStore, public: Path | None = None) -> set[str]:
    return {problem.kind for problem in verify_path(store.path, Expected(public_key=public)).problems}


@pytest.mark.requirement(48)
def test_a_signed_head_is_valid_under_its_key_and_foreign_under_another(store: StudyStore, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "ours")
    _, other = keys(tmp_path, "other")
    path = sign_head(store.path, read_study(store.path), private)
    assert sign_head(store.path, read_study(store.path), private) == path
    assert kinds(store) == set()
    assert kinds(store, public) == set()
    assert kinds(store, other) == {"signature"}
    with store.writing():
        add_attempt(store, Specimen(task="later"))
    assert kinds(store, public) == set(), "a signature of an earlier head stays valid"


def test_a_study_without_a_signature_fails_only_where_one_is_asked_for(store: StudyStore, tmp_path: Path) -> None:
    _, public = keys(tmp_path, "ours")
    assert kinds(store) == set()
    assert kinds(store, public) == {"signature"}


def test_an_altered_signature_or_payload_is_found(store: StudyStore, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "ours")
    path = sign_head(store.path, read_study(store.path), private)
    path.chmod(0o640)
    whole = path.read_bytes()
    envelope = json.loads(whole)
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["predicate"]["study"] = "other"
    envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    path.write_text(json.dumps(envelope))
    assert kinds(store, public) == {"signature"}
    path.write_bytes(whole[:-20])
    assert kinds(store) == {"signature"}
    path.write_bytes(b"[]")
    assert kinds(store) == {"signature"}


@pytest.mark.requirement(48)
def test_a_study_rewritten_after_it_was_signed_is_betrayed_without_any_key(store: StudyStore, tmp_path: Path) -> None:
    private, _ = keys(tmp_path, "ours")
    path = sign_head(store.path, read_study(store.path), private)
    forged = specimen_study(tmp_path / "forged", "s", cells=2)
    (forged.path / "signatures").mkdir()
    (forged.path / "signatures" / path.name).write_bytes(path.read_bytes())
    assert kinds(forged) == {"signature"}


def test_keys_of_another_kind_are_refused_with_what_is_expected(store: StudyStore, tmp_path: Path) -> None:
    rsa = generate_private_key(65537, 2048)
    (tmp_path / "rsa").write_bytes(rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "junk").write_bytes(b"junk")
    for name in ("rsa", "junk", "absent"):
        with pytest.raises(UsageError, match="Ed25519"):
            sign_head(store.path, read_study(store.path), tmp_path / name)
    private, _ = keys(tmp_path, "ours")
    sign_head(store.path, read_study(store.path), private)
    with pytest.raises(UsageError, match="public key"):
        verify_path(store.path, Expected(public_key=tmp_path / "junk"))
