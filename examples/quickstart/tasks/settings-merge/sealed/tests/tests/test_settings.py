from settings import lookup, merged


def test_every_level_is_merged():
    both = merged({"log": {"file": {"name": "a", "size": 1}}}, {"log": {"file": {"size": 2}}})
    assert both == {"log": {"file": {"name": "a", "size": 2}}}


def test_arguments_stay_as_they_were():
    defaults = {"log": {"level": "info"}}
    merged(defaults, {"log": {"level": "debug"}})
    assert defaults == {"log": {"level": "info"}}


def test_result_shares_nothing_with_the_arguments():
    defaults = {"log": {"level": "info"}}
    merged(defaults)["log"]["level"] = "debug"
    assert defaults == {"log": {"level": "info"}}


def test_later_value_replaces_earlier():
    assert merged({"a": 1, "b": 1}, {"a": {"x": 2}}) == {"a": {"x": 2}, "b": 1}


def test_lookup():
    assert lookup({"a": {"b": 3}}, "a.b") == 3
    assert lookup({"a": {"b": 3}}, "a.c", 0) == 0
