"""task.toml: what is wrong with it is said with file, line, key and what was expected; the recipe digest is a law."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.errors import InputFileError
from cells.tasks import load_task
from cells.tasks.task_model import ImageSection, RecipeSection

Rewrite = Callable[[str, str], Path]

WRONG = [
    ("schema_version = 1", "schema_version = 2", 1, "schema_version", "1"),
    ('id = "demo"', 'id = "../demo"', 2, "id", "pattern"),
    ('id = "demo"', 'id = "preds"', 2, "id", "score directory"),
    ('repository = "demo"', "repository = 7", 3, "repository", "string"),
    ('repository = "demo"', 'repository = "demo"\nworkdir = "work"', 4, "workdir", "absolute path"),
    ('repository = "demo"', 'repository = "demo"\nworkdir = "/assay/x"', 4, "workdir", "belongs to"),
    ('repository = "demo"', 'repository = "demo"\ncolour = "red"', 4, "colour", "unknown key"),
    ('base = "python"', 'base = "cobol"', 6, "image.base", "python"),
    ('base = "python"', 'base = "python"\ndigest = "sha256:12"', 7, "image.digest", "sha256"),
    ("pytest==9.2.0", "pytest", 7, "image.recipe.pip.0", "pinned"),
    ('apt = ["git"]', 'apt = ["git; rm"]', 7, "image.recipe.apt.0", "Debian"),
    ("[image]", "[limits]\nmemory_mb = 12\n[image]", 6, "limits.memory_mb", "greater"),
    ("[image]", "[limits]\nlines = 12\n[image]", 6, "limits.lines", "unknown key"),
    ("{report}", "report.xml", 9, "verify", "{report}"),
    ('runner = "pytest"', 'runner = "nose"', 11, "verify.runner", "pytest"),
    ('runner = "pytest"', 'runner = "pytest"\ntimeout_s = 0', 12, "verify.timeout_s", "greater"),
    ('runner = "pytest"', 'runner = "pytest"\nenv = { "A B" = "1" }', 12, "verify.env", "pattern"),
    ('runner = "pytest"', 'runner = "pytest"\nremove = ["../x"]', 12, "verify.remove.0", "inside"),
    ('f2p = ["tests.test_calc::test_add"]', "f2p = []", 12, "verify.f2p", "at least 1"),
    ('f2p = ["tests', 'f2p = [7, "tests', 12, "verify.f2p.0", "string"),
    ("tests.test_calc::test_other", "tests.test_calc::test_add", 9, "verify", "more than once"),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "expected"), WRONG, ids=[f"{w[3]}-{w[1][:18]}" for w in WRONG])
def test_what_is_wrong_is_named(rewrite: Rewrite, old: str, new: str, line: int, key: str, expected: str) -> None:
    directory = rewrite(old, new)
    with pytest.raises(InputFileError) as caught:
        load_task(directory)
    assert caught.value.exit_code == 2
    assert caught.value.file == str(directory / "task.toml")
    assert (caught.value.line, caught.value.key.split("[")[0] if caught.value.key else None) == (line, key) or (
        caught.value.line == line and str(caught.value.key).startswith(key)
    )
    assert expected in str(caught.value)


def test_a_base_or_a_digest(rewrite: Rewrite) -> None:
    directory = rewrite('base = "python"', f'digest = "sha256:{"0" * 64}"')
    with pytest.raises(InputFileError, match="recipe is installed on a base only"):
        load_task(directory)


def test_neither_base_nor_digest(rewrite: Rewrite) -> None:
    directory = rewrite('base = "python"\n', "")
    with pytest.raises(InputFileError, match="exactly one of"):
        load_task(directory)


@pytest.mark.parametrize("toml", ["id = \nrepository = 1", "a = 1\na = 2\n"])
def test_toml_that_does_not_parse_names_its_line(task_directory: Path, toml: str) -> None:
    (task_directory / "task.toml").write_text(toml)
    with pytest.raises(InputFileError) as caught:
        load_task(task_directory)
    assert caught.value.line is not None


PACKAGES = st.lists(st.from_regex(r"[a-z][a-z0-9]{1,8}==[0-9]\.[0-9]", fullmatch=True), max_size=5)
APT = st.lists(st.from_regex(r"[a-z][a-z0-9]{1,8}", fullmatch=True), max_size=4)


def recipe_digest(apt: list[str], pip: list[str]) -> str:
    return ImageSection(base="python", recipe=RecipeSection(apt=tuple(apt), pip=tuple(pip))).recipe_sha256


@given(APT, PACKAGES, st.randoms())
def test_order_and_repetition_of_packages_do_not_matter(apt: list[str], pip: list[str], random: object) -> None:
    shuffled = pip + pip[:1]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert recipe_digest(apt, pip) == recipe_digest(apt[::-1], shuffled)


@given(APT, PACKAGES, APT, PACKAGES)
def test_different_recipes_have_different_digests(
    apt: list[str], pip: list[str], apt2: list[str], pip2: list[str]
) -> None:
    same = (set(apt), set(pip)) == (set(apt2), set(pip2))
    assert (recipe_digest(apt, pip) == recipe_digest(apt2, pip2)) == same


def test_a_base_and_a_digest_never_share_a_recipe_digest() -> None:
    assert ImageSection(digest=f"sha256:{'0' * 64}").recipe_sha256 != recipe_digest([], [])
