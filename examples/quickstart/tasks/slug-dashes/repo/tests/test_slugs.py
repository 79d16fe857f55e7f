from textkit.slugs import slugify


def test_plain_words():
    assert slugify("one two") == "one-two"
