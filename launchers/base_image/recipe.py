"""The recipe of the base image: what decides it, and the digest that names it.

Rules:
1. The tag is `assay/base:<first 12 hex digits of the recipe digest>`.
2. The digest covers every byte that decides the image: the recipe file, this module (which turns the recipe into
   arguments and image configuration) and the architecture. The state of Debian's archive on the day is not part of
   it; the list of installed package versions is recorded beside it as label `assay.packages`.
3. No mirror is named: packages come from the apt sources that the building machine already uses.
"""

from __future__ import annotations

import hashlib
import platform
import shlex
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = "assay/base"
_RECIPE_FILE = Path(__file__).with_name("recipe.toml")
# machine name as the kernel says it -> Debian's name, the engine's name
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class User:
    """One line of the image's passwd and group files, without a password; the group is named and numbered alike."""

    name: str
    uid: int
    home: str


@dataclass(frozen=True)
class Recipe:
    """All that decides the base image. `source_date_epoch` is in seconds since 1970, UTC."""

    sha256: str
    architecture: str
    suite: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    variant: str
    source_date_epoch: int
    packages: tuple[str, ...]
    path_exclude: tuple[str, ...]
    path_include: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    users: tuple[User, ...]
    finish_script: str

    @property
    def tag(self) -> str:
        """The image's name on every engine: `assay/base:<12 hex digits>`."""
        return f"{REPOSITORY}:{self.sha256[:12]}"


def load_recipe(recipe_file: Path = _RECIPE_FILE, architecture: str | None = None) -> Recipe:
    """Read and digest the recipe that ships with this package.

    Raises KeyError, TypeError or tomllib.TOMLDecodeError for a recipe that is not whole: it ships with the code.
    """
    content = recipe_file.read_bytes()
    machine = architecture or platform.machine()
    return parse_recipe(content, Path(__file__).read_bytes(), _ARCHITECTURES.get(machine, machine))


def parse_recipe(content: bytes, builder_source: bytes, architecture: str) -> Recipe:
    """The recipe in `content`, digested together with the builder's source and the architecture."""
    table: dict[str, Any] = tomllib.loads(content.decode("utf-8"))
    return Recipe(
        sha256=recipe_digest(content, builder_source, architecture),
        architecture=architecture,
        suite=table["suite"],
        suites=tuple(table["suites"]),
        components=tuple(table["components"]),
        variant=table["variant"],
        source_date_epoch=table["source_date_epoch"],
        packages=tuple(table["packages"]),
        path_exclude=tuple(table["dpkg"]["path_exclude"]),
        path_include=tuple(table["dpkg"]["path_include"]),
        env=tuple(table["env"].items()),
        users=tuple(User(user["name"], user["uid"], user["home"]) for user in table["users"]),
        finish_script=table["finish"]["script"],
    )


def recipe_digest(*parts: bytes | str) -> str:
    """SHA-256 over the parts, each preceded by its length so that no two lists of parts give the same bytes."""
    digest = hashlib.sha256(b"assay base image recipe\n")
    for part in parts:
        raw = part.encode("utf-8") if isinstance(part, str) else part
        digest.update(b"%d\n" % len(raw))
        digest.update(raw)
    return digest.hexdigest()


def mmdebstrap_arguments(recipe: Recipe, target: Path, apt_options: tuple[str, ...] = ()) -> list[str]:
    """The mmdebstrap call that writes the root file system to `target` (a tar file); sources are read from stdin."""
    arguments = ["mmdebstrap", f"--variant={recipe.variant}", "--format=tar", f"--architectures={recipe.architecture}"]
    # Our own finish script removes all of apt; the engine makes /dev.
    arguments += ["--skip=cleanup/apt,cleanup/mmdebstrap,output/dev", f"--include={','.join(recipe.packages)}"]
    arguments += [f"--aptopt={option}" for option in apt_options]
    arguments += [f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.path_exclude]
    arguments += [f"--dpkgopt=path-include={pattern}" for pattern in recipe.path_include]
    arguments += [f"--customize-hook={_add_users_script(recipe)}", f"--customize-hook={recipe.finish_script}"]
    return [*arguments, recipe.suite, str(target), "-"]


def image_config(recipe: Recipe, layer_sha256: str, labels: dict[str, str]) -> dict[str, object]:
    """The image configuration (Docker image format 1.2): the same layer gives the same bytes, so the same image id."""
    created = datetime.fromtimestamp(recipe.source_date_epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "architecture": recipe.architecture,
        "os": "linux",
        "created": created,
        "config": {"Env": [f"{name}={value}" for name, value in recipe.env], "Cmd": ["/bin/bash"], "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_sha256}"]},
        "history": [{"created": created, "created_by": f"assay base image {recipe.sha256[:12]}"}],
    }


def _add_users_script(recipe: Recipe) -> str:
    return "\n".join(["set -eu", *(line for user in recipe.users for line in _user_lines(user))])


def _user_lines(user: User) -> list[str]:
    name, number, home = shlex.quote(user.name), user.uid, shlex.quote(user.home)
    return [
        f'echo {name}:x:{number}: >> "$1/etc/group"',
        f'echo {name}:x:{number}:{number}::{home}:/bin/bash >> "$1/etc/passwd"',
        f'install -d -m 0750 -o {number} -g {number} "$1"{home}',
    ]
