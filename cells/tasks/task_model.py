"""The file task.toml as types (20-interface): what a person writes, checked, unknown keys refused.

Rules:
1. The image is either a base with a recipe, built here, or the digest of an image that the engine already holds.
2. Packages of a recipe are pinned exactly: the recipe digest must mean the same thing tomorrow.
3. Expected tests are named once: no duplicate, and none both in `f2p` and in `p2p`.
4. `repository` is the cluster of the statistics: tasks of one repository are not independent.

Units: seconds, MiB. The digest of a recipe needs neither an engine nor a network.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, model_validator

from cells.design.study_model import Section, TighterLimits
from cells.evidence.digest import digest_json
from cells.tasks.image import WORKDIR_DEFAULT

RECIPE_VERSION = 1
REPORT_PLACEHOLDER = "{report}"
_RESERVED_IDS = {"preds", "score_result", "scorer", "hook"}
_RESERVED_ROOTS = ("/assay", "/gw", "/proc", "/sys", "/dev", "/tmp", "/etc", "/usr", "/bin", "/lib")

T = TypeVar("T")
Runner = Literal["pytest", "tap", "go", "jest", "ctest", "cargo", "script"]


def not_empty(values: tuple[T, ...]) -> tuple[T, ...]:
    """ValueError for an empty list. (A `min_length` would hide what is wrong with an item behind "too short".)"""
    if not values:
        raise ValueError("expected at least 1 entry; the list is empty")
    return values


def _task_id(value: str) -> str:
    if value.lower() in _RESERVED_IDS:
        raise ValueError(f"{value!r} is the name of a file in every score directory; choose another id")
    return value


def _work_directory(value: str) -> str:
    if not value.startswith("/") or posixpath.normpath(value) != value or value == "/":
        raise ValueError(f'expected an absolute path such as "{WORKDIR_DEFAULT}"; found {value!r}')
    if any(value == root or value.startswith(root + "/") for root in _RESERVED_ROOTS):
        raise ValueError(f"{value!r} belongs to the system or to Assay; expected a directory of the task's own")
    return value


def _inside(value: str) -> str:
    normal = posixpath.normpath(value)
    if value.startswith("/") or normal != value or normal.split("/")[0] in ("..", "."):
        raise ValueError(f"expected a path inside the work directory; found {value!r}")
    return value


def _requirement(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+", value):
        raise ValueError(f'expected a pinned requirement such as "pytest==9.2.0"; found {value!r}')
    return value


def _debian_package(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", value):
        raise ValueError(f'expected the name of a Debian package such as "git"; found {value!r}')
    return value


TaskId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"), AfterValidator(_task_id)]
TestId = Annotated[str, Field(min_length=1, max_length=4096)]
WorkDirectory = Annotated[str, AfterValidator(_work_directory)]
PathInside = Annotated[str, AfterValidator(_inside)]
Requirement = Annotated[str, AfterValidator(_requirement)]
DebianPackage = Annotated[str, AfterValidator(_debian_package)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class RecipeSection(Section):
    """[image] recipe: Debian packages by name and Python packages by exact version, added to the base image."""

    apt: Annotated[tuple[DebianPackage, ...], Field(strict=False)] = ()
    pip: Annotated[tuple[Requirement, ...], Field(strict=False)] = ()


class ImageSection(Section):
    """[image]: a base and a recipe, or a digest."""

    base: Literal["python"] | None = None
    recipe: RecipeSection = RecipeSection()
    digest: Annotated[str, Field(pattern=r"^([\w./:-]+@)?sha256:[0-9a-f]{64}$")] | None = None

    @model_validator(mode="after")
    def _one_of(self) -> ImageSection:
        if (self.base is None) == (self.digest is None):
            raise ValueError('expected exactly one of `base` (as "python") and `digest` (of an image the engine holds)')
        if self.digest is not None and (self.recipe.apt or self.recipe.pip):
            raise ValueError("a recipe is installed on a base only; an image given by digest is taken as it is")
        return self

    @property
    def recipe_sha256(self) -> str:
        """`sha256:<hex>` of what the recipe asks for; the order of packages does not matter."""
        return digest_json(
            {
                "v": RECIPE_VERSION,
                "base": self.base,
                "digest": self.digest,
                "apt": sorted(set(self.recipe.apt)),
                "pip": sorted(set(self.recipe.pip)),
            }
        )


class VerifySection(Section):
    """[verify]: how the hidden tests run and which must pass.

    `command` holds `{report}`, the path that the runner writes its report to (a reward file for `script`).
    `remove` are paths taken out of the tree before the hidden tests are laid over it (tests that a release dropped).
    `canary` is "auto" (pytest: an inverted copy of a hidden test, made per run) or a template's path below sealed/.
    """

    command: Annotated[tuple[str, ...], Field(strict=False), AfterValidator(not_empty)]
    runner: Runner
    timeout_s: Annotated[float, Field(gt=0, le=24 * 3600, strict=False)] = 120.0
    env: dict[VariableName, str] = Field(default_factory=dict)
    f2p: Annotated[tuple[TestId, ...], Field(strict=False), AfterValidator(not_empty)]
    p2p: Annotated[tuple[TestId, ...], Field(strict=False)] = ()
    remove: Annotated[tuple[PathInside, ...], Field(strict=False)] = ()
    canary: Annotated[str, Field(min_length=1)] = "auto"

    @model_validator(mode="after")
    def _consistent(self) -> VerifySection:
        repeated = [name for name, count in Counter(self.f2p + self.p2p).items() if count > 1]
        if repeated:
            raise ValueError(f"test named more than once in f2p and p2p: {repeated[0]!r}")
        if not any(REPORT_PLACEHOLDER in word for word in self.command):
            raise ValueError(f"the command must say where its report goes: `{REPORT_PLACEHOLDER}` in one of its words")
        return self


class TaskFile(Section):
    """The whole of task.toml."""

    schema_version: Literal[1]
    id: TaskId
    repository: Annotated[str, Field(min_length=1, max_length=200)]
    workdir: WorkDirectory = WORKDIR_DEFAULT
    licence: str | None = None
    source: str | None = None
    image: ImageSection
    limits: TighterLimits = TighterLimits()
    verify: VerifySection
