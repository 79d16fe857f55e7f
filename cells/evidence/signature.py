"""Signatures over a ledger's head: DSSE envelopes with Ed25519, made and checked offline; optional (`pip install
assay[sign]`).

Rules (30-evidence 48):
1. The payload is an in-toto Statement whose subject is the ledger's head: through the chain it binds every row, and
   through the rows
   every published bundle up to that moment. No transparency log is used and no SLSA level is claimed.
2. A signature lies in `signatures/`, apart from what it signs; it is created once.
3. Also without a key a signature is a witness: its head must be in the ledger.
"""

from __future__ import annotations

import base64
import json
from importlib import import_module
from pathlib import Path
from typing import Any

from cells.errors import EnvironmentFault, EvidenceError, UsageError
from cells.evidence.digest import PREFIX, canonical_json
from cells.evidence.fs import FileSystem, Kind, create_durable, make_directories, read_plain
from cells.evidence.fs_real import REAL
from cells.evidence.ledger import LEDGER, Chain
from cells.evidence.manifest import STATEMENT_TYPE
from cells.evidence.problem import Problem

FOLDER = "signatures"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
PREDICATE_TYPE = "urn:assay:ledger-head:v1"
_SUFFIX = ".dsse.json"


def head_statement(study: str, chain: Chain) -> bytes:
    """The payload that is signed for a ledger as it is now."""
    if chain.head is None:
        raise EvidenceError(f"{LEDGER}: has no rows; there is nothing to sign")
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": LEDGER, "digest": {"sha256": chain.head.removeprefix(PREFIX)}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"v": 1, "study": study, "rows": chain.count},
        }
    )


def sign_head(study: Path, chain: Chain, private_key: Path, fs: FileSystem = REAL) -> Path:
    """Sign a ledger's head with a PEM private key (Ed25519, unencrypted PKCS 8); the path of the signature."""
    signer = _signer(private_key)
    from securesystemslib.dsse import Envelope

    envelope = Envelope(head_statement(study.name, chain), PAYLOAD_TYPE, {})
    keyid = envelope.sign(signer).keyid
    path = study / FOLDER / f"{chain.count:08d}.{keyid[:12]}{_SUFFIX}"
    make_directories(fs, path.parent)
    content = canonical_json(envelope.to_dict())
    try:
        create_durable(fs, path, content)
    except FileExistsError:
        if read_plain(fs, path) != content:
            raise EvidenceError(f"{path}: another signature is there; nothing was replaced") from None
    fs.sync_directory(path.parent)
    return path


def check_signatures(
    study: Path, chain: Chain, public_key: Path | None, fs: FileSystem = REAL
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Every signature of a study with its status (valid, unchecked, foreign, invalid), and the problems that follow.

    With a key at least one signature must be valid under it. EnvironmentFault when a key is given and the extra is
    not installed.
    """
    found: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for path in _files(study, fs):
        name = f"{FOLDER}/{path.name}"
        try:
            envelope = json.loads(read_plain(fs, path, 1 << 20))
            status = "unchecked" if public_key is None else _status(envelope, public_key)
            rows, head = _signed_head(envelope)
        except (EvidenceError, ValueError, KeyError, TypeError, IndexError) as error:
            problems.append(Problem(name, "signature", f"not a signature of a ledger's head ({error})"))
            continue
        if _head_after(chain, rows) != head:
            problems.append(
                Problem(name, "signature", f"signed the head {head} after {rows} rows; the ledger has another")
            )
        if status == "invalid":
            problems.append(Problem(name, "signature", "does not match what it claims to sign"))
        found.append({"path": name, "status": status, "rows": rows, "head": head})
    if public_key is not None and not any(one["status"] == "valid" for one in found):
        problems.append(Problem(FOLDER, "signature", f"no valid signature by the key {public_key.name}"))
    return found, problems


def _status(document: dict[str, Any], public_key: Path) -> str:
    key = _public_key(public_key)
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    envelope = Envelope.from_dict(json.loads(json.dumps(document)))
    if key.keyid not in envelope.signatures:
        return "foreign"
    try:
        envelope.verify([key], 1)
    except VerificationError:
        return "invalid"
    return "valid"


def _signed_head(document: dict[str, Any]) -> tuple[int, str]:
    statement = json.loads(base64.b64decode(document["payload"], validate=True))
    if document["payloadType"] != PAYLOAD_TYPE or statement["predicateType"] != PREDICATE_TYPE:
        raise EvidenceError(f"payload of type {document['payloadType']!r}")
    return int(statement["predicate"]["rows"]), PREFIX + str(statement["subject"][0]["digest"]["sha256"])


def _head_after(chain: Chain, rows: int) -> str | None:
    if rows == chain.count:
        return chain.head
    return chain.rows[rows].prev if 0 < rows < chain.count else None


def _files(study: Path, fs: FileSystem) -> list[Path]:
    status = fs.status(study / FOLDER)
    if status is None or status.kind is not Kind.DIRECTORY:
        return []
    tree = fs.tree(study / FOLDER)
    try:
        return [study / FOLDER / entry.name for entry in tree.entries() if entry.name.endswith(_SUFFIX)]
    finally:
        tree.close()


def _signer(path: Path) -> Any:
    serialization, signer = _crypto()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: expected an unencrypted PEM private key (Ed25519): {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path}: expected an Ed25519 key, found {type(key).__name__}")
    return signer.CryptoSigner(key)


def _public_key(path: Path) -> Any:
    serialization, signer = _crypto()

    try:
        return signer.SSlibKey.from_crypto(serialization.load_pem_public_key(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: expected a PEM public key (Ed25519): {error}") from error


def _crypto() -> tuple[Any, Any]:
    """cryptography's serialization and securesystemslib's signer modules."""
    try:
        return import_module("cryptography.hazmat.primitives.serialization"), import_module("securesystemslib.signer")
    except ImportError as error:
        raise EnvironmentFault(f"signatures need the extra `sign` ({error.name}): pip install 'assay[sign]'") from error
