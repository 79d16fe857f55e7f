from textkit.wrapping import indent, wrap


def test_last_line_is_kept():
    assert wrap("one two three", 7) == ["one two", "three"]


def test_space_counts():
    assert wrap("ab cd ef", 4) == ["ab", "cd", "ef"]


def test_wide_word_has_its_own_line():
    assert wrap("extraordinary it is", 5) == ["extraordinary", "it is"]


def test_empty_text_has_no_lines():
    assert wrap("", 10) == []


def test_indent():
    assert indent(["a", "", "b"], 2) == ["  a", "", "  b"]
