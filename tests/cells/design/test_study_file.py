"""A wrong study file is refused with file, line, key, what was found and what is expected; nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.design.study_file import load_study
from cells.errors import InputFileError

GOOD = """\
[study]
name = "quick"
seed = 20261130
tasks = ["tasks/*"]
samples = 2
[limits]
wall_s = 120
cost = "0.50"
[models.fixed]
provider = "scripted"
script = "scripts/"
[models.live]
provider = "openai"
base_url = "http://127.0.0.1:8080/v1"
model = "served-name"
api_key_env = "OPENAI_API_KEY"
price = { input_per_mtok = "0.15", output_per_mtok = "0.60", currency = "USD" }
[arms.control]
harness = "reference"
model = "fixed"
[arms.treatment]
harness = "reference"
model = "fixed"
settings = { prompt_suffix = "Run the tests." }
[[comparisons]]
control = "control"
treatment = "treatment"
outcomes = ["resolved", "f2p_fraction"]
"""


def study(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def test_a_complete_file_is_read_with_exact_money(tmp_path: Path) -> None:
    loaded = load_study(study(tmp_path, GOOD))
    assert str(loaded.file.limits.cost) == "0.50"
    assert loaded.file.models["live"].price is not None
    assert str(loaded.file.models["live"].price.output_per_mtok) == "0.60"
    assert loaded.file.comparisons[0].cluster == "repository"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("samples = 2", "sampels = 2", 5, ("study.sampels", "unknown key")),
        ("wall_s = 120", 'wall_s = "long"', 7, ("limits.wall_s", "'long'")),
        ('cost = "0.50"', "cost = 0.5", 8, ("limits.cost", "in quotes", "0.5")),
        ('cost = "0.50"', 'cost = "free"', 8, ("limits.cost", "free")),
        ('input_per_mtok = "0.15"', 'input_per_mtok = "cheap"', 17, ("models.live.price.input_per_mtok", "cheap")),
        ('cost = "0.50"', 'cost = "NaN"', 8, ("limits.cost", "NaN")),
        ('cost = "0.50"', 'cost = "-1"', 8, ("limits.cost", "-1")),
        ("[arms.treatment]", "[arms.control]", 21, ("arms", "control", "twice")),
        ('model = "fixed"\n[arms.t', 'model = "fixt"\n[arms.t', 20, ("arms.control.model", "fixt", "'fixed', 'live'")),
        ('treatment = "treatment"', 'treatment = "treat"', 27, ("comparisons.0.treatment", "treat", "control")),
        ('treatment = "treatment"', 'treatment = "control"', 27, ("comparisons.0.treatment", "both")),
        ('script = "scripts/"\n', "", 9, ("models.fixed", "`script`")),
        ("seed = 20261130", "seed = -1", 3, ("study.seed", "-1")),
        ('name = "quick"', 'name = "../up"', 2, ("study.name", "../up")),
        ("[limits]", "[limits", 6, ()),
    ],
)
def test_a_wrong_file_is_refused_with_line_key_and_reason(
    tmp_path: Path, old: str, new: str, line: int, words: tuple[str, ...]
) -> None:
    assert old in GOOD
    with pytest.raises(InputFileError) as caught:
        load_study(study(tmp_path, GOOD.replace(old, new, 1)))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'study.toml'}:{line}: "), message
    assert all(word in message for word in words), message
    assert caught.value.exit_code == 2


def test_a_missing_file_and_a_file_that_is_not_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        load_study(tmp_path / "nowhere.toml")
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputFileError, match="UTF-8"):
        load_study(tmp_path / "study.toml")


def test_the_names_of_the_controls_are_kept_for_the_controls(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="kept for the control"):
        load_study(study(tmp_path, GOOD.replace("[arms.control]", "[arms.oracle]").replace('"control"', '"oracle"')))
