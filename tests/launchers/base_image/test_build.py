"""What a build makes: an image that an engine loads with the same id every time, and that holds what cells need."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from launchers.base_image import EngineApi, Recipe, ensure_base_image, load_recipe
from launchers.base_image.build import builder_variables, installed_packages, write_image_archive

STATUS = """\
Package: patch
Status: install ok installed
Description: apply a diff
 Version: not this one
Version: 2.7.6-7

Package: git
Status: install ok installed
Version: 1:2.39.5-0+deb12u2
"""


def layer(directory: Path, members: dict[str, bytes]) -> Path:
    path = directory / "layer.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def engine() -> EngineApi:
    return EngineApi.from_environment(os.environ)


def test_the_installed_packages_are_read_with_their_versions_and_sorted(tmp_path: Path) -> None:
    root = layer(tmp_path, {"./var/lib/dpkg/status": STATUS.encode("utf-8")})
    assert installed_packages(root) == "git 1:2.39.5-0+deb12u2\npatch 2.7.6-7\n"


def test_the_shell_of_the_builder_does_not_decide_a_byte_of_the_image() -> None:
    """PYTHONDONTWRITEBYTECODE did: five compiled files of the image differed, and with them its id."""
    poor = builder_variables({"PATH": "/usr/bin", "http_proxy": "proxy"}, load_recipe())
    rich = {"PATH": "/usr/bin", "http_proxy": "proxy", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "de_DE", "DEB_X": "1"}
    assert builder_variables(rich, load_recipe()) == poor
    assert poor["http_proxy"] == "proxy"


def test_the_same_layer_gives_the_same_archive_byte_for_byte(tmp_path: Path) -> None:
    root = layer(tmp_path, {"./etc/hostname": b""})
    archives = [tmp_path / "first.tar", tmp_path / "second.tar"]
    for archive in archives:
        write_image_archive(archive, root, load_recipe(), {"assay.role": "base"})
    first, second = (hashlib.sha256(archive.read_bytes()).hexdigest() for archive in archives)
    assert first == second


@pytest.fixture
def other_recipe() -> Iterator[Recipe]:
    """A recipe under a tag of its own, so that the real base image stays as it is."""
    recipe = dataclasses.replace(load_recipe(), sha256=hashlib.sha256(os.urandom(16)).hexdigest())
    yield recipe
    client = docker.from_env()
    if client.images.list(name=recipe.tag):
        client.images.remove(recipe.tag, force=True)
    client.close()


@pytest.mark.engine
def test_an_engine_loads_the_archive_and_then_holds_the_image_with_its_labels(
    tmp_path: Path, other_recipe: Recipe
) -> None:
    archive = tmp_path / "image.tar"
    labels = {"assay.role": "base", "assay.recipe": other_recipe.sha256, "assay.packages": "0" * 64}
    write_image_archive(archive, layer(tmp_path, {"./etc/hostname": b""}), other_recipe, labels)
    with archive.open("rb") as content:
        engine().load(content, archive.stat().st_size)

    held = ensure_base_image(engine(), other_recipe, say=lambda line: pytest.fail(line))

    assert (held.tag, held.packages_sha256, held.built) == (other_recipe.tag, "0" * 64, False)


@pytest.fixture(scope="module")
def seen_inside() -> dict[str, str]:
    """What one container of the base image, hardened as a cell is, says of itself."""
    image = ensure_base_image(engine(), load_recipe(), say=lambda line: None)
    questions = {
        "programs": "for p in python3 python git patch ps tar find diff bash; do command -v $p >&2 || echo $p; done",
        "users": "getent passwd 65532 65533 | cut -d: -f1,3,6",
        "setuid": "find / -xdev ! -type l -perm /6000 2>/dev/null",
        "modules": "python3 -c 'import ctypes, json, lzma, sqlite3, ssl, tomllib, unittest, venv, xml.etree' 2>&1",
        "apt": "ls -d /etc/apt /var/lib/apt /var/cache/apt 2>/dev/null",
        "secrets": "ls /etc/shadow 2>/dev/null; cat /etc/machine-id",
    }
    client = docker.from_env()
    try:
        return {
            name: client.containers.run(
                image.image_id,
                ["sh", "-c", f"{question}; echo asked"],
                network_mode="none",
                user="65532:65532",
                read_only=True,
                cap_drop=["ALL"],
                remove=True,
                labels={"assay.role": "test"},
            ).decode("utf-8")
            for name, question in questions.items()
        }
    finally:
        client.close()


@pytest.mark.engine
@pytest.mark.parametrize("question", ["programs", "setuid", "modules", "apt", "secrets"])
def test_nothing_is_missing_and_nothing_is_left_over(seen_inside: dict[str, str], question: str) -> None:
    assert seen_inside[question] == "asked\n"


@pytest.mark.engine
def test_agent_and_verifier_are_users_with_a_home_each(seen_inside: dict[str, str]) -> None:
    assert seen_inside["users"].split() == ["agent:65532:/home/agent", "verifier:65533:/home/verifier", "asked"]


@pytest.mark.engine
@pytest.mark.full
@pytest.mark.timeout(900)
def test_two_builds_from_the_same_packages_have_the_same_id(other_recipe: Recipe) -> None:
    first = ensure_base_image(engine(), other_recipe, say=lambda line: None)
    client = docker.from_env()
    client.images.remove(first.tag, force=True)
    client.close()
    second = ensure_base_image(engine(), other_recipe, say=lambda line: None)
    assert (first.built, second.built) == (True, True)
    assert (first.image_id, first.packages_sha256) == (second.image_id, second.packages_sha256)
