import pytest

from intervals import free, merge


def test_touching_are_joined():
    assert merge([(10, 20), (0, 10)]) == [(0, 20)]


def test_inner_does_not_shorten():
    assert merge([(0, 60), (10, 20)]) == [(0, 60)]


@pytest.mark.parametrize("given", [[], [(1, 2)], [(1, 2), (3, 4)]])
def test_apart_stay_apart(given):
    assert merge(given) == given


def test_overlapping_are_joined():
    assert merge([(0, 5), (3, 8)]) == [(0, 8)]


def test_free():
    assert free([(5, 10)], (0, 20)) == [(0, 5), (10, 20)]
