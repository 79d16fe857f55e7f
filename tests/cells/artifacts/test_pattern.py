"""Patterns match whole names; any bytes become a safe name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.artifacts.pattern import MAX_SEGMENT, PathPattern, check_name, safe_name
from cells.errors import BoundaryViolation

SEGMENT = (
    st.binary(min_size=1, max_size=300)
    .map(lambda raw: raw.replace(b"/", b"_"))
    .filter(lambda raw: raw not in (b".", b".."))
)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("<session_dir>/attachments/segment-NNNN/image-NNNN.<ext>", "attachments/segment-0001/image-0002.png", True),
        ("<session_dir>/attachments/segment-NNNN/image-NNNN.<ext>", "attachments/segment-1/image-0002.png", False),
        ("<session_dir>/transcript.pre_seg_N.log", "transcript.pre_seg_12.log", True),
        ("<session_dir>/transcript.pre_seg_N.log", "transcript.pre_seg_0.log", False),
        ("live/wire/**", "live/wire/ab/cd", True),
        ("live/wire/**", "live/wire", False),
        ("<task_cwd>/.tool_output/*.log", ".tool_output/a.log", True),
        ("<task_cwd>/.tool_output/*.log", ".tool_output/a/b.log", False),
        ("post/<task>.patch", "post/x/y.patch", False),
        ("plan.lock.rNNN.json", "plan.lock.r002.json", True),
    ],
)
def test_a_pattern_fits_a_whole_name_or_not_at_all(pattern: str, name: str, fits: bool) -> None:
    assert PathPattern.of(pattern).matches(name) is fits


@given(st.lists(SEGMENT, min_size=1, max_size=8))
def test_any_relative_path_of_bytes_becomes_a_safe_name(segments: list[bytes]) -> None:
    name = safe_name(b"/".join(segments))
    assert check_name(name) == name
    assert all(len(segment) <= MAX_SEGMENT for segment in name.split("/"))


@given(st.lists(SEGMENT, min_size=1, max_size=3), st.lists(SEGMENT, min_size=1, max_size=3))
def test_two_paths_never_become_one_name(first: list[bytes], second: list[bytes]) -> None:
    left, right = b"/".join(first), b"/".join(second)
    assert (safe_name(left) == safe_name(right)) == (left == right)


@pytest.mark.parametrize("raw", [b"/etc/passwd", b"a//b", b"../x", b"a/./b", b"", b"/".join([b"d"] * 65)])
def test_a_path_that_leaves_its_root_or_is_too_deep_is_refused(raw: bytes) -> None:
    with pytest.raises(BoundaryViolation, match="not a safe name"):
        safe_name(raw)


def test_bytes_that_are_not_text_stand_as_percent_signs() -> None:
    assert safe_name(b"bad\xff\n 100%.log") == "bad%FF%0A 100%25.log"


def test_a_short_name_cannot_be_chosen_to_collide_with_a_cut_one() -> None:
    long = b"a" * 300
    assert safe_name(safe_name(long).encode()) != safe_name(long)
