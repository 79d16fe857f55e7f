"""A planted key is found in every form it may have, and is gone after the scrub."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.recording.secrets import find_secrets, scrub

KEY = 'sk-live/0123456789+"abc"=='
SECRETS = {"PROVIDER_KEY": KEY}

FORMS = {
    "plain": KEY.encode(),
    "json": json.dumps({"key": KEY}).encode(),
    "url": quote(KEY, safe="").encode(),
    "hex": KEY.encode().hex().encode(),
    "base64": base64.b64encode(KEY.encode()),
    "base64 after one byte": base64.b64encode(b"x" + KEY.encode() + b"yz"),
    "base64 after two bytes": base64.b64encode(b"xx" + KEY.encode() + b"y"),
    "basic authorization": base64.b64encode(b"user:" + KEY.encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_planted_key_is_found_and_scrubbed(form: str) -> None:
    content = b'{"metrics": 1}\n' + FORMS[form] + b"\nmore"
    found = find_secrets(content, SECRETS)
    assert found and {item.name for item in found} == {"PROVIDER_KEY"}
    assert KEY not in repr(found)
    clean = scrub(content, SECRETS)
    assert find_secrets(clean, SECRETS) == []
    assert b"[removed:PROVIDER_KEY]" in clean
    assert clean.startswith(b'{"metrics": 1}\n') and clean.endswith(b"\nmore")


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_scrubbed_file_has_no_key_wherever_it_stood(before: bytes, after: bytes) -> None:
    content = before + KEY.encode() + after
    assert find_secrets(content, SECRETS)
    assert find_secrets(scrub(content, SECRETS), SECRETS) == []


def test_other_bytes_are_left_alone() -> None:
    content = bytes(range(256)) * 3
    assert scrub(content, SECRETS) == content
    assert find_secrets(content, SECRETS) == []


def test_a_value_too_short_to_tell_apart_is_not_looked_for() -> None:
    assert find_secrets(b"unused unused", {"KEY": "unused"}) == []
