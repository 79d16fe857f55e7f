"""One step of an image build: a container of the parent, our program run in it without network, its end committed.

Rules:
1. Inputs are one archive made by us, with fixed owners and times; the program is mounted read-only from this package.
2. The container carries our labels (role `builder`) and a deadline: what a dead owner leaves is found and removed.
3. The engine's image gets the labels given, and none of the builder's.
4. A build that fails is `ImageBuildFailed`: the cell is lost, the whole log is kept, nothing is scored.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import IO, Any

import requests
from docker.errors import DockerException

from cells.errors import InfraFailure
from cells.evidence.digest import digest_bytes, digest_json
from cells.sandbox import ChannelClosed, ChannelTimeout, Container, ContainerSpec, Frame, Limits, Mount, Owner
from launchers import labels
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.hardening import FULL

REASON = "image_build"
ROLE = "builder"
PROGRAMS = "/assay/incell"
INPUTS = "/assay/build"
FIXED_TIME = 946_684_800  # 2000-01-01T00:00:00Z
TIMEOUT_S = 900.0
_LOG_CAP = 8 << 20
_TAIL_LINES = 12
# What package scripts and a change of owner need; the engine's default set without networking (capabilities(7)).
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "SETFCAP")
_LIMITS = Limits(memory_mb=4096, cpus=2.0, disk_mb=8192, pids=512, tmp_mb=256, disk_backing="file")


class ImageBuildFailed(InfraFailure):
    """An image could not be built; `log` is everything that the build said."""

    def __init__(self, detail: str, log: bytes) -> None:
        tail = "\n".join(log.decode("utf-8", "replace").splitlines()[-_TAIL_LINES:])
        super().__init__(REASON, f"{detail}\n{tail}" if tail else detail)
        self.log = log


@dataclass(frozen=True)
class Work:
    """`program`, a module of the trusted programs, in a container of `parent`; `inputs` is a tar archive laid over
    `/`, over its volumes too."""

    parent: str
    program: str
    inputs: IO[bytes]
    subject: str
    """For messages and the builder's labels: which task, recipe or layer."""
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Step:
    """One derived image: what is done, and how its end is named."""

    parent: str
    program: str
    inputs: IO[bytes]
    repository: str
    tag: str
    labels: Mapping[str, str]
    subject: str

    @property
    def work(self) -> Work:
        """What is done."""
        return Work(self.parent, self.program, self.inputs, self.subject)


def derive(engine: Engine, step: Step, learned: Callable[[Frame], Mapping[str, str]] = lambda answer: {}) -> str:
    """Run the step and commit it with its labels and those `learned` from the program's answer; the image id.

    Raises ImageBuildFailed when the program fails, InfraFailure when the engine does.
    """
    container = _container(engine, step.work)
    try:
        answer = _run(engine, container, step.work)
        return _commit(engine, container, step, {**step.labels, **learned(answer)})
    finally:
        container.remove()


def perform(engine: Engine, work: Work) -> Frame:
    """Do the work for what it leaves in its volumes; the program's answer. Raises as `derive` does."""
    container = _container(engine, work)
    try:
        return _run(engine, container, work)
    finally:
        container.remove()


def program_digest(*modules: str) -> str:
    """Digest of the trusted programs that decide an image: another builder makes another image."""
    folder = files("cells.incell.trusted")
    return digest_json({name: digest_bytes(folder.joinpath(f"{name}.py").read_bytes()) for name in modules})


def _container(engine: Engine, work: Work) -> Container:
    sandboxes = DockerSandboxes(engine, hardening=replace(FULL, read_only_root=False))
    return sandboxes.create(_specification(work))


def _specification(step: Work) -> ContainerSpec:
    run = f"import sys; sys.path.insert(0, '/assay'); from incell.{step.program} import main; main()"
    programs = Mount(str(files("cells.incell.trusted")), PROGRAMS, kind="directory")
    return ContainerSpec(
        owner=Owner(study="", cell=step.subject, attempt="", role=ROLE, deadline_s=2 * TIMEOUT_S),
        image=step.parent,
        command=("python3", "-I", "-B", "-c", run),
        limits=_LIMITS,
        user="0:0",
        mounts=(programs, *step.mounts),
        capabilities=_CAPABILITIES,
    )


def _run(engine: Engine, container: Container, step: Work) -> Frame:
    _lay_inputs(engine, container.id, step.inputs)
    channel = container.attach()
    container.start()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        answer = channel.receive(deadline, _LOG_CAP)
    except (ChannelClosed, ChannelTimeout) as error:
        end = container.kill("build_deadline")
        words = {ChannelClosed: "ended without an answer", ChannelTimeout: f"did not end within {TIMEOUT_S:.0f} s"}
        raise ImageBuildFailed(
            f"{step.subject}: the build {words[type(error)]} (exit {end.code}); the image needs python3 and git",
            end.stderr,
        ) from error
    finally:
        channel.close()
    end_of_program = container.wait(deadline) or container.kill("build_deadline")
    if answer.type != "built":
        raise ImageBuildFailed(f"{step.subject}: {step.program} failed", answer.body or end_of_program.stderr)
    return answer


def _lay_inputs(engine: Engine, container_id: str, inputs: IO[bytes]) -> None:
    try:
        engine.api.put_archive(container_id, "/", inputs)
    except (DockerException, requests.RequestException, OSError) as error:
        raise InfraFailure(REASON, f"the engine did not take the build's inputs: {error}") from error


def _commit(engine: Engine, container: Container, step: Step, image_labels: Mapping[str, str]) -> str:
    # The engine merges the container's labels into the image's; ours are emptied, so that no reaper takes an image.
    emptied = dict.fromkeys((labels.STUDY, labels.CELL, labels.ATTEMPT, labels.OWNER, labels.DEADLINE), "")
    config: dict[str, Any] = {"Labels": {**emptied, **image_labels}, "Cmd": ["/bin/sh"], "Entrypoint": []}
    try:
        committed = engine.api.commit(container.id, step.repository, step.tag, pause=False, conf=config)
    except (DockerException, requests.RequestException) as error:
        raise InfraFailure(REASON, f"{step.subject}: the engine did not commit the image: {error}") from error
    return str(committed["Id"])


class InputArchive:
    """A tar archive of build inputs in a file: root's, with fixed times, whatever the host says of the sources."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT)  # noqa: SIM115 (closed by close)
        self._folders: set[str] = set()

    def add(self, path: bytes, mode: int, content: bytes) -> None:
        """A file (`mode` as git writes it) or, for mode 120000, a link whose target is `content`."""
        name = path.decode("utf-8", "surrogateescape")
        self._add_folders(name)
        entry = _entry(name, mode & 0o777 or 0o777)
        if mode == 0o120000:
            entry.type, entry.linkname = tarfile.SYMTYPE, content.decode("utf-8", "surrogateescape")
            self._tar.addfile(entry)
        else:
            entry.size = len(content)
            self._tar.addfile(entry, io.BytesIO(content))

    def add_all(self, items: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Several of them."""
        for path, mode, content in items:
            self.add(path, mode, content)

    def add_folder(self, name: str) -> None:
        """A folder, and those above it, where they are not in the archive yet."""
        self._add_folders(f"{name}/.")

    def close(self) -> None:
        """Write the end of the archive; the stream stays open."""
        self._tar.close()

    def _add_folders(self, name: str) -> None:
        parts = name.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            if folder not in self._folders:
                self._folders.add(folder)
                entry = _entry(folder, 0o755)
                entry.type = tarfile.DIRTYPE
                self._tar.addfile(entry)


def _entry(name: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime, entry.uid, entry.gid = mode, FIXED_TIME, 0, 0
    return entry
