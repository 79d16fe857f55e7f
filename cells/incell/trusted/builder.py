"""Builds the two repositories of a task image in a container of its parent: as root, without network, before any agent.

Rules (10-architecture, 30-evidence C3 and p12):
1. /assay/base is the base state as a fresh repository of one commit with fixed dates: nothing of another history is
   there.
2. /assay/collector.git holds the image's whole base tree, files left untracked by whoever made the image included.
3. Git objects are made from bytes by the collector's own walk: no filter, attribute or hook of the tree takes part.
4. The proof is part of the build: one ref, one commit, every object reached from it, no reflog, no remote; or it fails.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys

from .frames import write_frame
from .names import encode_name
from .objects import Base as KnownObjects
from .objects import GitFailed, Repository, git_environment
from .pack import object_id
from .snapshot import Snapshot, SnapshotCaps, take_snapshot
from .walk import TooManyEntries, WalkLimits

BASE, COLLECTOR = "/assay/base", "/assay/collector.git"
REQUEST = "/assay/build/request.json"
EPOCH = 946_684_800  # 2000-01-01T00:00:00Z: every base commit is made then
_IDENTITY = b"Assay Base <base@assay.invalid> %d +0000" % EPOCH
_ALLOWED = {"HEAD", "config", "index", "objects", "refs"}
_HEAD = b"ref: refs/heads/main\n"
_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tfileMode = true
\tbare = false
[user]
\tname = agent
\temail = agent@assay.invalid
"""
_UNCAPPED = SnapshotCaps(changes=1 << 62, changed_bytes=1 << 62)
_USERS = (("agent", 65532), ("verifier", 65533))


class BuildFailed(Exception):
    """The image cannot be what a task image must be; the message says why."""


def main() -> None:
    """Build what the request asks for and answer with one frame: `built` with the ids, or `failed` with the reason."""
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        with open(REQUEST, encoding="utf-8") as file:
            answer = build(json.load(file))
    except (BuildFailed, GitFailed, TooManyEntries, OSError, subprocess.SubprocessError) as error:
        write_frame(output, {"type": "failed"}, f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))
        sys.exit(1)
    write_frame(output, {"type": "built", **answer})


def build(request: dict[str, str | None]) -> dict[str, object]:
    """Make both repositories. `expected_tree` is the git tree id of the base state, None when the image holds it."""
    workdir, expected = request["workdir"], request["expected_tree"]
    if workdir is None:
        raise BuildFailed("the request names no work directory")
    source_git = None
    if expected is None:
        source_git = copy_from_image(workdir, BASE)
    _make_readable(BASE)
    base_tree, snapshot = make_collector(BASE, COLLECTOR)
    if expected is not None and (base_tree != expected or snapshot.left_out):
        raise BuildFailed(f"the image holds the tree {base_tree}, the task's base state is {expected}")
    head_tree = base_tree if source_git is None else _head_tree(source_git)
    make_agent_repository(BASE, COLLECTOR if source_git is None else source_git, head_tree)
    base_commit, head_commit = prove_single_commit(COLLECTOR), prove_single_commit(f"{BASE}/.git")
    os.makedirs(workdir, exist_ok=True)
    _add_users()
    shutil.rmtree(os.path.dirname(REQUEST))
    return {
        "head_commit": head_commit,
        "head_tree": head_tree,
        "base_commit": base_commit,
        "base_tree": base_tree,
        "left_out": snapshot.left_out,
    }


def copy_from_image(workdir: str, target: str) -> str | None:
    """Copy the state that an image already holds, every `.git` in it left behind; the repository at its top, if any."""
    if not os.path.isdir(workdir):
        raise BuildFailed(f"asked for the base state in {workdir}; the image has no such directory")
    os.makedirs(target)
    subprocess.run(
        ["cp", "-a", "--no-preserve=ownership", f"{workdir}/.", target], check=True, stdin=subprocess.DEVNULL
    )
    for where, directories, names in os.walk(os.fsencode(target), topdown=True):
        for name in [*directories, *names]:
            if name.lower() == b".git":
                _remove(os.path.join(where, name))
        directories[:] = [name for name in directories if name.lower() != b".git"]
    source = os.path.join(workdir, ".git")
    return source if os.path.isdir(source) and os.path.exists(os.path.join(source, "HEAD")) else None


def make_collector(root: str, git_dir: str) -> tuple[str, Snapshot]:
    """A bare repository whose only commit is the whole tree below `root`; its tree id and what the walk met."""
    os.makedirs(git_dir)
    repository = Repository(git_dir, git_dir)
    os.unlink(os.path.join(git_dir, "objects/info/alternates"))  # a base borrows from nobody
    nothing = KnownObjects("", {}, frozenset())
    snapshot = take_snapshot(root, repository, nothing, WalkLimits(), _UNCAPPED)
    special = [item for item in snapshot.left_out if item["reason"] != "git"]
    if special or snapshot.tree is None:
        raise BuildFailed(f"the base tree holds what no patch can hold: {special[:3]}")
    _commit(git_dir, snapshot.tree)
    repository.git("-c", "repack.writeBitmaps=false", "repack", "-a", "-d", "-q", "-n", "--threads=1")
    _drop_first_pack(git_dir)
    return snapshot.tree, snapshot


def _drop_first_pack(git_dir: str) -> None:
    # git does not count a pack by a name of ours as redundant; everything in it is in the new one.
    folder = os.path.join(git_dir, "objects/pack")
    for name in os.listdir(folder):
        if name.startswith("pack-assay."):
            os.unlink(os.path.join(folder, name))


def make_agent_repository(root: str, source_git: str, tree: str) -> None:
    """`.git` below `root` with one commit of `tree`; its objects come from `source_git`, the index is that tree."""
    git_dir = os.path.join(root, ".git")
    for name in ("objects", "refs/heads"):
        os.makedirs(os.path.join(git_dir, name))
    _put(os.path.join(git_dir, "config"), _CONFIG)
    _put(os.path.join(git_dir, "HEAD"), _HEAD)
    names = _git(source_git, "rev-list", "--objects", "--no-object-names", tree)
    pack = _git(source_git, "pack-objects", "--stdout", "-q", "--threads=1", stdin=names)
    _git(git_dir, "index-pack", "--stdin", stdin=pack)
    _commit(git_dir, tree)
    _git(git_dir, "read-tree", tree)


def _commit(git_dir: str, tree: str) -> None:
    commit, content = commit_of(tree)
    written = _git(git_dir, "hash-object", "-t", "commit", "-w", "--stdin", stdin=content).decode().strip()
    if written != commit:
        raise BuildFailed(f"git wrote the commit {written}, expected {commit}")
    _put(os.path.join(git_dir, "refs/heads/main"), commit.encode() + b"\n")
    _put(os.path.join(git_dir, "HEAD"), _HEAD)


def commit_of(tree: str) -> tuple[str, bytes]:
    """Id and content of the one commit of a tree: no parent, fixed author and date."""
    content = b"tree %s\nauthor %s\ncommitter %s\n\nbase\n" % (tree.encode(), _IDENTITY, _IDENTITY)
    return object_id(b"commit", content), content


def prove_single_commit(git_dir: str) -> str:
    """The id of the only commit; BuildFailed when the repository holds anything that it does not reach."""
    refs = _git(git_dir, "for-each-ref", "--format=%(refname) %(objectname)").decode().splitlines()
    if len(refs) != 1 or not refs[0].startswith("refs/heads/main "):
        raise BuildFailed(f"{git_dir}: expected the one ref refs/heads/main, found {refs[:3]}")
    commit = refs[0].split()[1]
    everything = set(_git(git_dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
    reached = set(_git(git_dir, "rev-list", "--objects", "--no-object-names", "--all").split())
    commits = _git(git_dir, "rev-list", "--all", "--count").decode().strip()
    if everything != reached or commits != "1":
        extra = len(everything - reached)
        raise BuildFailed(f"{git_dir}: {commits} commits, {extra} objects that the base does not reach")
    if _git(git_dir, "config", "--get-regexp", "^(remote|branch|include)", fine=(0, 1)):
        raise BuildFailed(f"{git_dir}: its configuration names another repository")
    unknown = set(os.listdir(git_dir)) - _ALLOWED - ({"info"} if git_dir == COLLECTOR else set())
    if unknown or os.path.exists(os.path.join(git_dir, "objects/info/alternates")):
        raise BuildFailed(f"{git_dir}: holds {sorted(unknown) or 'alternates'}; a fresh repository does not")
    return commit


def _head_tree(git_dir: str) -> str:
    return _git(git_dir, "rev-parse", "--verify", "HEAD^{tree}").decode().strip()


def _git(git_dir: str, *arguments: str, stdin: bytes | None = None, fine: tuple[int, ...] = (0,)) -> bytes:
    command = ("git", "-c", "safe.directory=*", *arguments)
    done = subprocess.run(command, input=stdin or b"", capture_output=True, env=git_environment(git_dir), cwd="/")
    if done.returncode not in fine:
        raise GitFailed(f"git {arguments[0]} in {git_dir}: exit {done.returncode}: {done.stderr[-2000:]!r}")
    return done.stdout


def _put(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _remove(path: bytes) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    print(f"left out: {encode_name(path)}", flush=True)


def _make_readable(root: str) -> None:
    # The agent's first process copies the base as the agent's own user.
    subprocess.run(["chmod", "-R", "a+rX,u+w", root], check=True, stdin=subprocess.DEVNULL)


def _add_users() -> None:
    for name, number in _USERS:
        _add_line("/etc/passwd", name, f"{name}:x:{number}:{number}::/home/{name}:/bin/sh")
        _add_line("/etc/group", name, f"{name}:x:{number}:")


def _add_line(path: str, name: str, line: str) -> None:
    with open(path, "a+", encoding="utf-8", errors="surrogateescape") as file:
        file.seek(0)
        if not any(row.startswith(f"{name}:") for row in file):
            file.write(line + "\n")
