"""Paragraphs in lines of a given width."""


def wrap(text, width):
    """The words of `text` in lines of at most `width` characters; a longer word has a line of its own."""
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return lines


def indent(lines, by):
    """The lines with `by` spaces before each that is not empty."""
    return [" " * by + line if line else line for line in lines]
