import pytest

from cache import Cache


def filled():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    return cache


def test_get_is_a_use():
    cache = filled()
    cache.get("a")
    cache.put("c", 3)
    assert cache.keys() == ["a", "c"]


def test_put_again_is_a_use():
    cache = filled()
    cache.put("a", 9)
    cache.put("c", 3)
    assert cache.keys() == ["a", "c"] and cache.get("a") == 9


def test_first_goes_when_nothing_was_used():
    cache = filled()
    cache.put("c", 3)
    assert cache.keys() == ["b", "c"]


def test_missing_gives_the_default():
    assert filled().get("z", 7) == 7


def test_size():
    with pytest.raises(ValueError):
        Cache(0)
