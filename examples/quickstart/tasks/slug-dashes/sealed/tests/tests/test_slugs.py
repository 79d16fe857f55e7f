from textkit.slugs import slugify, unique_slug


def test_plain_words():
    assert slugify("one two") == "one-two"


def test_runs_of_signs_give_one_dash():
    assert slugify("Hello,  World") == "hello-world"


def test_no_dash_at_the_ends():
    assert slugify("  (What?)  ") == "what"


def test_no_dash_where_it_is_cut():
    assert slugify("four five six", limit=5) == "four"


def test_limit_of_plain_words():
    assert slugify("abcdefgh", limit=3) == "abc"


def test_unique():
    assert unique_slug("one two", {"one-two", "one-two-2"}) == "one-two-3"
