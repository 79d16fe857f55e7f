"""Task images on a real engine: what is in them, what is not, and what is said when they cannot be built."""

from __future__ import annotations

import contextlib
import io
import tarfile
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import ImageNotFound

from cells.errors import InfraFailure
from cells.sandbox import AGENT_UID
from cells.tasks import FrozenTask, freeze, load_task
from cells.tasks.base_state import entries_of_directory, git_tree_id
from launchers.engine import Engine
from launchers.image_build import ImageBuildFailed, InputArchive
from launchers.image_build_packages import fetch_wheels, installed_packages, wheel_platforms
from launchers.images import build_task_image, open_base_image

TOML = """\
schema_version = 1
id = "{id}"
repository = "images"
[image]
{image}
[verify]
command = ["true", "{{report}}"]
runner = "script"
f2p = ["reward"]
"""
# What a model could learn from a repository about the future; of the base it may learn everything.
MINE_HISTORY = """\
git log --all --oneline | wc -l
git for-each-ref | wc -l
git reflog | wc -l
git fsck --unreachable --no-reflogs 2>&1 | wc -l
git tag | wc -l
git remote | wc -l
git stash list | wc -l
git cat-file --batch-all-objects --batch-check='%(objectname)' | wc -l
git rev-list --objects --all | wc -l
git status --porcelain --ignored | wc -l
find .git -name '*.lock' -o -name ORIG_HEAD -o -name FETCH_HEAD -o -name packed-refs -o -name logs | wc -l
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    connected = Engine.connect()
    yield connected
    connected.close()


@pytest.fixture
def made(engine: Engine) -> Iterator[list[str]]:
    """Ids of images to be removed after the test."""
    images: list[str] = []
    yield images
    for image in reversed(images):
        with contextlib.suppress(ImageNotFound):  # gone with an untagged child
            engine.api.remove_image(image, force=True)


def a_task(tmp_path: Path, image: str = 'base = "python"', repo: dict[str, bytes] | None = None) -> FrozenTask:
    """A frozen task of its own, so that no other test built its image."""
    directory = tmp_path / "task"
    name = f"images-{uuid.uuid4().hex[:8]}"
    files = {
        "task.toml": TOML.format(id=name, image=image).encode(),
        "prompt.md": b"do\n",
        "sealed/verify.sh": b"true\n",
    }
    for path, content in {**files, **{f"repo/{key}": value for key, value in (repo or {}).items()}}.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    return freeze(load_task(directory), tmp_path / "frozen")


def in_container(engine: Engine, image: str, script: str, user: int = AGENT_UID) -> str:
    """Output of a shell script in a container of the image, run in a copy of its base."""
    command = ["sh", "-c", f"cp -r /assay/base /tmp/w && cd /tmp/w && {script}"]
    output: bytes = engine.client.containers.run(image, command, network_mode="none", user=str(user), remove=True)
    return output.decode()


BASE_STATE = {
    "src/a.py": b"x = 1\r\n",
    ".gitattributes": b"* text=auto filter=evil\n*.py ident\n",
    ".gitignore": b"build/\n",
    "build/out": b"made\n",
    "odd \u00e9\nname": b"$Id$\n",
}


@pytest.mark.engine
def test_the_image_holds_the_base_state_and_nothing_else(engine: Engine, made: list[str], tmp_path: Path) -> None:
    task = a_task(tmp_path, repo=BASE_STATE)
    (tmp_path / "task/repo/alias").symlink_to("src/a.py")
    image = build_task_image(task, engine)
    made.append(image.image_id)
    expected = git_tree_id(entries_of_directory(task.directory / "repo"))
    assert (image.head_tree, image.base_tree) == (expected, expected)
    assert image.head_commit == image.base_commit
    counts = in_container(engine, image.image_id, MINE_HISTORY).split()
    # one commit, one ref; no reflog, nothing unreachable, no tag, no remote, no stash; every object is reached; clean
    assert counts[:7] == ["1", "1", "0", "0", "0", "0", "0"]
    assert counts[7] == counts[8] and counts[9:] == ["0", "0"]


@pytest.mark.engine
def test_the_agent_cannot_write_what_it_was_given(engine: Engine, made: list[str], tmp_path: Path) -> None:
    image = build_task_image(a_task(tmp_path, repo={"a": b"1"}), engine)
    made.append(image.image_id)
    script = "touch /assay/base/x /assay/collector.git/x /assay/base/.git/x 2>/dev/null; stat -c %U /assay/base/a"
    assert in_container(engine, image.image_id, script).strip() == "root"
    assert (
        in_container(engine, image.image_id, "ls /assay/base /assay/collector.git | grep -c '^x$' || true").strip()
        == "0"
    )


@pytest.mark.engine
def test_an_image_is_built_once(engine: Engine, made: list[str], tmp_path: Path) -> None:
    task = a_task(tmp_path, repo={"a": b"1"})
    said: list[str] = []
    first = build_task_image(task, engine, said.append)
    made.append(first.image_id)
    assert build_task_image(task, engine, said.append) == first
    assert len(said) == 1


@pytest.mark.engine
def test_what_is_sealed_is_not_in_the_image(engine: Engine, made: list[str], tmp_path: Path) -> None:
    task = a_task(tmp_path, repo={"a": b"1"})
    image = build_task_image(task, engine)
    made.append(image.image_id)
    found = in_container(
        engine, image.image_id, "find / -xdev -name verify.sh -o -xdev -name gold.patch 2>/dev/null || true"
    )
    assert found == ""


def _held_image(engine: Engine, made: list[str], script: str) -> str:
    """An image that somebody else made: the base image plus what a script does to /testbed."""
    base = open_base_image(engine).image_id
    container = engine.client.containers.create(base, ["sh", "-euc", script], network_mode="none")
    try:
        container.start()
        assert container.wait()["StatusCode"] == 0, container.logs()
        made.append(str(container.commit().id))
    finally:
        container.remove(force=True)
    return made[-1]


PREBUILT = """
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
mkdir /testbed && cd /testbed && git init -q && echo 1 > code.py && echo '*.so' > .gitignore
git add -A && git commit -qm base
git checkout -q -b later && echo THE-FIX > code.py && git commit -qam 'the fix' && git tag v2 && git checkout -q master
echo built > ext.so && echo local > untracked.txt && git init -q vendored && echo x > vendored/f
"""


@pytest.mark.engine
def test_an_image_that_holds_its_base_loses_its_history_and_keeps_its_untracked_files(
    engine: Engine, made: list[str], tmp_path: Path
) -> None:
    held = _held_image(engine, made, PREBUILT)
    task = _with_workdir(tmp_path, held)
    image = build_task_image(task, engine)
    made.append(image.image_id)
    assert image.head_tree != image.base_tree
    script = (
        "git ls-files | tr '\\n' ' '; echo; git status --porcelain; git log --all --oneline | wc -l; git tag | wc -l"
    )
    assert in_container(engine, image.image_id, script).split("\n") == [
        ".gitignore code.py ",
        "?? untracked.txt",
        "?? vendored/",
        "1",
        "0",
        "",
    ]
    listing = "git --git-dir=/assay/collector.git ls-tree -r --name-only HEAD"
    assert in_container(engine, image.image_id, listing).split() == [
        ".gitignore",
        "code.py",
        "ext.so",
        "untracked.txt",
        "vendored/f",
    ]
    everything = "git cat-file --batch-all-objects --batch | grep -c THE-FIX || true"
    assert in_container(engine, image.image_id, everything).strip() == "0"
    assert in_container(engine, image.image_id, "find . -name .git | wc -l").strip() == "1"


def _with_workdir(tmp_path: Path, held: str) -> FrozenTask:
    directory = tmp_path / "held"
    toml = TOML.format(id=f"held-{uuid.uuid4().hex[:8]}", image=f'digest = "{held}"')
    (directory / "sealed").mkdir(parents=True)
    (directory / "task.toml").write_text(toml.replace("[image]", 'workdir = "/testbed"\n[image]', 1))
    (directory / "prompt.md").write_text("do\n")
    (directory / "sealed/verify.sh").write_text("true\n")
    return freeze(load_task(directory), tmp_path / "frozen-held")


@pytest.mark.engine
def test_an_image_that_is_not_there(engine: Engine, tmp_path: Path) -> None:
    task = a_task(tmp_path, image=f'digest = "sha256:{"0" * 64}"')
    with pytest.raises(ImageBuildFailed, match="does not hold it: load or pull it first") as caught:
        build_task_image(task, engine)
    assert (caught.value.reason, isinstance(caught.value, InfraFailure)) == ("image_build", True)


@pytest.mark.engine
def test_a_work_directory_that_is_not_there(engine: Engine, tmp_path: Path) -> None:
    task = a_task(tmp_path, image=f'digest = "{open_base_image(engine).image_id}"')
    with pytest.raises(ImageBuildFailed, match="no such directory|holds what|base"):
        image = build_task_image(_elsewhere(task, tmp_path), engine)
        raise AssertionError(f"built {image}")


def _elsewhere(task: FrozenTask, tmp_path: Path) -> FrozenTask:
    directory = tmp_path / "task"
    toml = (directory / "task.toml").read_text().replace("[image]", 'workdir = "/nowhere"\n[image]', 1)
    (directory / "task.toml").write_text(toml)
    return freeze(load_task(directory), tmp_path / "frozen-elsewhere")


@pytest.mark.engine
def test_a_package_that_does_not_exist_is_an_image_failure_with_the_clients_words(
    engine: Engine, tmp_path: Path
) -> None:
    task = a_task(tmp_path, 'base = "python"\nrecipe = { pip = ["pytest==0.0.0.1"] }', {"a": b"1"})
    with pytest.raises(ImageBuildFailed, match="pip could not fetch") as caught:
        build_task_image(task, engine)
    assert b"pytest==0.0.0.1" in caught.value.log


def test_input_archives_are_the_same_bytes_whatever_the_host_says() -> None:
    def archived() -> bytes:
        stream = io.BytesIO()
        archive = InputArchive(stream)
        archive.add(b"a/b\xff", 0o100755, b"1")
        archive.add(b"a/l", 0o120000, b"b")
        archive.close()
        return stream.getvalue()

    assert archived() == archived()
    with tarfile.open(fileobj=io.BytesIO(archived()), errors="surrogateescape") as tar:
        facts = [(member.name, member.uid, member.mode, member.mtime) for member in tar]
    assert facts == [
        ("a", 0, 0o755, 946684800),
        ("a/b\udcff", 0, 0o755, 946684800),
        ("a/l", 0, 0o777, 946684800),
    ]


def _wheel(folder: Path, name: str, requires: str = "") -> None:
    with zipfile.ZipFile(folder / f"{name}-99.0-py3-none-any.whl", "w") as wheel:
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.0\n"
        wheel.writestr(f"{name}-99.0.dist-info/METADATA", head + (f"Requires-Dist: {requires}\n" if requires else ""))
        wheel.writestr(f"{name}-99.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-99.0.dist-info/RECORD", "")


@pytest.mark.parametrize(("python", "expected"), [("3.11", {"pip", "asks"}), ("3.9", {"pip", "asks", "backport"})])
def test_conditions_of_wheels_are_answered_for_the_images_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str, expected: set[str]
) -> None:
    for name, requires in (("pip", ""), ("backport", ""), ("asks", 'backport; python_version < "3.10"')):
        _wheel(tmp_path, name, requires)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    fetched = fetch_wheels(["asks==99.0"], "amd64", tmp_path / "wheels", python)
    assert {name.split("-")[0] for name in fetched.digests} == expected


def test_platform_tags_are_those_of_the_image() -> None:
    tags = wheel_platforms("amd64")
    assert (tags[0], tags[-1]) == ("manylinux_2_36_x86_64", "any")
    assert "manylinux2014_aarch64" in wheel_platforms("arm64")


def test_only_installed_packages_count() -> None:
    status = "Package: a\nStatus: install ok installed\n\nPackage: b\nStatus: deinstall ok config-files\n"
    assert installed_packages(status) == {"a"}
