"""Slugs: a title as it stands in an address."""

import re


def slugify(title, limit=60):
    """Lower-case words of `title` joined by single dashes, at most `limit` characters."""
    slug = re.sub(r"[^a-z0-9]", "-", title.lower())
    return slug[:limit]


def unique_slug(title, taken):
    """A slug that is not in `taken`: a number is added where it has to be."""
    slug, number = slugify(title), 2
    while slug in taken:
        slug = f"{slugify(title)}-{number}"
        number += 1
    return slug
