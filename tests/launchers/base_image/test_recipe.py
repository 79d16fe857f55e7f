"""The base image is named by the digest of all that decides it, and its configuration has one byte form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.base_image.recipe import (
    Recipe,
    image_config,
    load_recipe,
    mmdebstrap_arguments,
    parse_recipe,
    recipe_digest,
)

RECIPE_FILE = Path(__file__).resolve().parents[3] / "launchers" / "base_image" / "recipe.toml"


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe(RECIPE_FILE, "x86_64")


@given(parts=st.lists(st.binary(), min_size=1), place=st.data())
def test_any_changed_byte_of_any_part_changes_the_digest(parts: list[bytes], place: st.DataObject) -> None:
    index = place.draw(st.integers(0, len(parts) - 1))
    changed = list(parts)
    changed[index] = place.draw(st.binary().filter(lambda other: other != parts[index]))
    assert recipe_digest(*parts) != recipe_digest(*changed)


@given(content=st.binary(min_size=1), cut=st.data())
def test_where_one_part_ends_is_part_of_the_digest(content: bytes, cut: st.DataObject) -> None:
    first, second = sorted(cut.draw(st.lists(st.integers(0, len(content)), min_size=2, max_size=2, unique=True)))
    assert recipe_digest(content[:first], content[first:]) != recipe_digest(content[:second], content[second:])


def test_a_comment_in_the_recipe_the_builder_and_the_architecture_each_give_another_tag() -> None:
    content = RECIPE_FILE.read_bytes()
    variants = [
        parse_recipe(content, b"builder", "amd64"),
        parse_recipe(content + b"# a word\n", b"builder", "amd64"),
        parse_recipe(content, b"builder, changed", "amd64"),
        parse_recipe(content, b"builder", "arm64"),
    ]
    assert len({variant.tag for variant in variants}) == len(variants)


def test_the_tag_is_the_name_and_twelve_digits_of_the_digest(recipe: Recipe) -> None:
    assert recipe.tag == f"assay/base:{recipe.sha256[:12]}"
    assert len(recipe.sha256) == 64


def test_the_users_of_cells_and_verifiers_are_in_the_recipe(recipe: Recipe) -> None:
    assert {user.name: user.uid for user in recipe.users} == {"agent": 65532, "verifier": 65533}


def test_the_same_layer_gives_the_same_configuration_bytes(recipe: Recipe) -> None:
    first, second = (json.dumps(image_config(recipe, "0" * 64, {"assay.role": "base"})) for _ in range(2))
    assert first == second and "2026-01-01T00:00:00Z" in first


def test_mmdebstrap_is_told_no_mirror_but_reads_the_sources_from_its_input(recipe: Recipe) -> None:
    arguments = mmdebstrap_arguments(recipe, Path("layer.tar"))
    assert arguments[-3:] == ["bookworm", "layer.tar", "-"]
    assert not any("://" in argument for argument in arguments)
