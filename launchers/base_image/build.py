"""Makes sure that the engine holds the base image of a recipe, building it from Debian packages where it does not.

Rules:
1. An image counts as ours only if its label `assay.recipe` is the whole digest: a foreign image under the tag is
   replaced, never used.
2. One build at a time on a machine: the second caller waits and then finds the image of the first.
3. The same packages give the same layer, the same configuration and so the same image id.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cells.errors import EnvironmentFault
from launchers.base_image.engine_api import EngineApi
from launchers.base_image.recipe import Recipe, image_config, mmdebstrap_arguments

BUILD_TIMEOUT_S = 900
_STATUS_MEMBER = "./var/lib/dpkg/status"


@dataclass(frozen=True)
class BaseImage:
    """A base image that the engine holds; `built` says whether this call made it."""

    tag: str
    image_id: str
    recipe_sha256: str
    packages_sha256: str
    built: bool


def ensure_base_image(engine: EngineApi, recipe: Recipe, say: Callable[[str], None]) -> BaseImage:
    """The base image of `recipe` on `engine`, built first where it is not there.

    Raises EnvironmentFault where no engine answers, where mmdebstrap is missing, or where the build fails.
    """
    held = _held(engine, recipe)
    if held is not None:
        return held
    _require_mmdebstrap()
    with _one_build_at_a_time(), tempfile.TemporaryDirectory(prefix="assay-base-") as scratch:
        return _held(engine, recipe) or _build(engine, recipe, Path(scratch), say)


def _held(engine: EngineApi, recipe: Recipe) -> BaseImage | None:
    image = engine.image(recipe.tag)
    labels = ((image or {}).get("Config") or {}).get("Labels") or {}
    if image is None or labels.get("assay.recipe") != recipe.sha256:
        return None
    return BaseImage(recipe.tag, image["Id"], recipe.sha256, labels.get("assay.packages", ""), built=False)


def _build(engine: EngineApi, recipe: Recipe, scratch: Path, say: Callable[[str], None]) -> BaseImage:
    layer, archive = scratch / "layer.tar", scratch / "image.tar"
    say(f"building {recipe.tag} from Debian packages ({', '.join(recipe.packages)})")
    _run_mmdebstrap(recipe, layer, scratch)
    packages_sha256 = hashlib.sha256(installed_packages(layer).encode("utf-8")).hexdigest()
    labels = {"assay.packages": packages_sha256, "assay.recipe": recipe.sha256, "assay.role": "base"}
    write_image_archive(archive, layer, recipe, labels)
    with archive.open("rb") as content:
        engine.load(content, archive.stat().st_size)
    held = _held(engine, recipe)
    if held is None:
        raise EnvironmentFault(f"loaded {recipe.tag} into the engine at {engine.host}, but it is not there")
    return BaseImage(held.tag, held.image_id, held.recipe_sha256, held.packages_sha256, built=True)


def _run_mmdebstrap(recipe: Recipe, layer: Path, scratch: Path) -> None:
    log = scratch / "mmdebstrap.log"
    environment = builder_variables(os.environ, recipe)
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                mmdebstrap_arguments(recipe, layer, apt_transport_options()),
                input=debian_sources(recipe).encode("utf-8"),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=BUILD_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault(f"mmdebstrap did not end within {BUILD_TIMEOUT_S} s\n{_tail(log)}") from error
    if done.returncode != 0:
        raise EnvironmentFault(f"mmdebstrap ended with {done.returncode}; its last words:\n{_tail(log)}")


def builder_variables(environment: Mapping[str, str], recipe: Recipe) -> dict[str, str]:
    """The variables of a build: how to reach packages stays, what would change a byte of the image goes.

    Python's own variables decide how its compiled files are written.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith(("PYTHON", "LC_", "LANG", "DEB"))}
    fixed = {
        "SOURCE_DATE_EPOCH": str(recipe.source_date_epoch),
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    return kept | fixed


def debian_sources(recipe: Recipe) -> str:
    """One `deb` line for each Debian source of this machine that the recipe's suites and components name.

    Raises EnvironmentFault where this machine has none: then the image cannot be built here.
    """
    format_ = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    lines = set(_output(["apt-get", "indextargets", "--format", format_, "Created-By: Packages"]).splitlines())
    wanted = sorted(line for line in lines if _is_wanted(line, recipe))
    if not any(line.split()[2] == recipe.suite for line in wanted):
        raise EnvironmentFault(
            f"asked for an apt source of Debian {recipe.suite} ({' '.join(recipe.components)}); "
            "this machine has none in /etc/apt: add one"
        )
    return "\n".join(wanted) + "\n"


def _is_wanted(line: str, recipe: Recipe) -> bool:
    words = line.split()
    return len(words) == 4 and words[2] in recipe.suites and words[3] in recipe.components


def apt_transport_options() -> tuple[str, ...]:
    """How this machine's apt reaches its sources (proxies, certificates), as mmdebstrap's --aptopt wants it."""
    lines = _output(["apt-config", "dump", "Acquire"]).splitlines()
    prefixes = tuple(f"acquire::{name}::" for name in ("http", "https", "ftp"))
    wanted = [line for line in lines if line.lower().startswith(prefixes) and not line.endswith(' "";')]
    return tuple(line.removesuffix(";") for line in wanted)


def installed_packages(layer: Path) -> str:
    """`name version` for each package that the root file system's dpkg says is installed, one a line, sorted."""
    with tarfile.open(layer) as tar:
        member = tar.extractfile(_STATUS_MEMBER)
        if member is None:
            raise EnvironmentFault(f"the built root file system has no {_STATUS_MEMBER}")
        status = member.read().decode("utf-8")
    stanzas = [dict(_fields(stanza)) for stanza in status.split("\n\n") if stanza.strip()]
    return "\n".join(sorted(f"{stanza['Package']} {stanza['Version']}" for stanza in stanzas)) + "\n"


def _fields(stanza: str) -> Iterator[tuple[str, str]]:
    for line in stanza.splitlines():
        name, colon, value = line.partition(": ")
        if colon and not name.startswith(" "):
            yield name, value


def write_image_archive(archive: Path, layer: Path, recipe: Recipe, labels: dict[str, str]) -> None:
    """Write what `docker load` reads: layer, image configuration, and the manifest that joins them to the tag."""
    with layer.open("rb") as content:
        layer_sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    config = json.dumps(image_config(recipe, layer_sha256, labels), sort_keys=True, separators=(",", ":")).encode(
        "utf-8"
    )
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{layer_sha256}/layer.tar"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [recipe.tag], "Layers": [layer_name]}]).encode("utf-8")
    with tarfile.open(archive, "w") as tar:
        _add_bytes(tar, config_name, config)
        _add_bytes(tar, "manifest.json", manifest)
        entry = tarfile.TarInfo(layer_name)
        entry.size = layer.stat().st_size
        with layer.open("rb") as content:
            tar.addfile(entry, content)


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _require_mmdebstrap() -> None:
    missing = [name for name in ("mmdebstrap", "apt-get", "apt-config") if shutil.which(name) is None]
    if missing:
        raise EnvironmentFault(
            f"the base image is not on this engine and cannot be built: {', '.join(missing)} missing. "
            "As root: apt-get install mmdebstrap"
        )


@contextmanager
def _one_build_at_a_time() -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"assay-base-image-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise EnvironmentFault(f"{' '.join(command[:2])} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])
