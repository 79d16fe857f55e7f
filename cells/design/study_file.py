"""Reading a study file: the checked model, plus the checks that cross its sections (who is named must exist)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cells.design.study_model import StudyFile
from cells.errors import InputFileError
from cells.toml_file import KeyPath, key_lines, load_toml

CONTROL_HARNESSES = ("oracle", "nop")


@dataclass(frozen=True)
class LoadedStudy:
    """A study file as read: where from, its exact bytes, its checked content."""

    path: Path
    content: bytes
    file: StudyFile

    @property
    def directory(self) -> Path:
        """What relative paths in the file are relative to."""
        return self.path.parent

    def error(self, key: KeyPath, message: str) -> InputFileError:
        """An error of this file at a key: names file, line and key."""
        lines = key_lines(self.content.decode("utf-8"))
        line = next((lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in lines), None)
        return InputFileError(str(self.path), message, line=line, key=".".join(str(part) for part in key))


def load_study(path: Path) -> LoadedStudy:
    """The study at `path`. InputFileError (exit 2) names file, line, key and what was expected; nothing is created."""
    file, content = load_toml(path, StudyFile)
    study = LoadedStudy(path, content, file)
    _check_arms(study)
    _check_comparisons(study)
    return study


def _check_arms(study: LoadedStudy) -> None:
    models = sorted(study.file.models)
    for name, arm in study.file.arms.items():
        if arm.model is not None and arm.model not in study.file.models:
            found = f"the study has the models {models}" if models else "the study has no models"
            raise study.error(("arms", name, "model"), f"asked for {arm.model!r}; {found}")
        if name in CONTROL_HARNESSES:
            raise study.error(
                ("arms", name), f"the name {name!r} is kept for the control of [controls]; choose another"
            )


def _check_comparisons(study: LoadedStudy) -> None:
    arms = sorted(study.file.arms)
    seen: set[tuple[str, str]] = set()
    for index, comparison in enumerate(study.file.comparisons):
        here: KeyPath = ("comparisons", index)
        for side in ("control", "treatment"):
            if getattr(comparison, side) not in study.file.arms:
                raise study.error(
                    (*here, side), f"asked for {getattr(comparison, side)!r}; the study has the arms {arms}"
                )
        pair = (comparison.control, comparison.treatment)
        if comparison.control == comparison.treatment:
            raise study.error((*here, "treatment"), f"control and treatment are both {comparison.control!r}")
        if pair in seen:
            raise study.error(here, f"the comparison of {pair[0]!r} with {pair[1]!r} is given twice")
        seen.add(pair)
