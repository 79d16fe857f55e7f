"""`assay tasks import releases`: each release pair of a file becomes a native task directory, measured on this machine.

Rules:
1. Nothing of the new release is in the base state; hidden tests and gold patch stand in sealed/ only.
2. Which tests turn and which stay is measured in containers without network, by the verifier that cells use.
3. A pair whose counts are known must reproduce them; a pair that does not is not imported, and said.
4. A finished task directory is kept: the same command again goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cells.errors import EnvironmentFault, UsageError
from cells.tasks import FrozenTask, freeze, load_task
from cells.tasks.changelog import entries_between
from cells.tasks.release_pair import (
    Files,
    PairSection,
    PairsFile,
    SplitPair,
    is_metadata,
    is_test,
    licence_of,
    split_pair,
)
from cells.tasks.tree import EXECUTABLE, LINK
from cells.toml_file import load_toml
from flows.task_import_patch import difference

RECIPE = ("pytest==9.2.0", "pytest-timeout==2.4.0", "hypothesis==6.170.17", "freezegun==1.5.5", "six==1.17.0")
_QUIET = ("-q", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout", "120")
COMMAND = ["python3", "-m", "pytest", *_QUIET, "--junitxml", "{report}"]
TIMEOUT_S = 120.0
_UNMEASURED = "unmeasured"

Fetch = Callable[[str, str], Files]
"""Files of a project's release by name and version."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """Ids of hidden tests that pass on the base, and on the base with the gold patch; seconds that the latter took."""

    before: frozenset[str]
    after: frozenset[str]
    gold_s: float


Measure = Callable[[FrozenTask], Measured]


@dataclass(frozen=True)
class Imported:
    """What became of a pair: `imported`, `kept` (was there already) or `differs` (counts are not those of the file)."""

    id: str
    state: str
    f2p: int
    p2p: int
    detail: str = ""


def import_releases(
    pairs: Path, out: Path, fetch: Fetch, measure: Measure, say: Say, workers: int = 2
) -> list[Imported]:
    """Import every pair of a file into `out`; one line a pair through `say`.

    Raises InputFileError for the file, EnvironmentFault when an index, git or the engine cannot be used.
    """
    file, _ = load_toml(pairs, PairsFile)
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(_import_pair, pair, out, fetch, measure) for pair in file.pair]
        results = []
        for number, job in enumerate(jobs, 1):
            try:
                results.append(job.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            say(f"[{number}/{len(jobs)}] {line_of(results[-1])}")
    return results


def line_of(pair: Imported) -> str:
    """One pair for a person."""
    return f"{pair.id}: {pair.state}, f2p {pair.f2p}, p2p {pair.p2p}" + (f" ({pair.detail})" if pair.detail else "")


def require_counts(results: list[Imported]) -> None:
    """EnvironmentFault naming the pairs that did not reproduce their counts."""
    wrong = [pair for pair in results if pair.state == "differs"]
    if wrong:
        raise EnvironmentFault(
            f"{len(wrong)} of {len(results)} pairs did not reproduce the counts of the file and were not imported: "
            + "; ".join(f"{pair.id}: {pair.detail}" for pair in wrong)
        )


def _import_pair(pair: PairSection, out: Path, fetch: Fetch, measure: Measure) -> Imported:
    target = out / pair.task_id
    if target.exists():
        verify = load_task(target).file.verify
        return Imported(pair.task_id, "kept", len(verify.f2p), len(verify.p2p))
    old, new = fetch(pair.name, pair.old), fetch(pair.name, pair.new)
    split = split_pair(old, new)
    with tempfile.TemporaryDirectory(prefix=f".{pair.task_id}.", dir=out) as scratch:
        stage = Path(scratch) / pair.task_id
        _write_files(stage, split, _prompt(pair, new))
        _write_toml(stage, pair, split, licence_of(new), (_UNMEASURED,), ())
        measured = measure(freeze(load_task(stage), Path(scratch) / "frozen"))
        f2p, p2p = measured.after - measured.before, measured.after & measured.before
        problem = _differs(pair, len(f2p), len(p2p), measured.gold_s)
        if problem:
            return Imported(pair.task_id, "differs", len(f2p), len(p2p), problem)
        _write_toml(stage, pair, split, licence_of(new), tuple(sorted(f2p)), tuple(sorted(p2p)))
        load_task(stage)
        os.rename(stage, target)
    return Imported(pair.task_id, "imported", len(f2p), len(p2p))


def _differs(pair: PairSection, f2p: int, p2p: int, gold_s: float) -> str:
    """Why the measured task is not the one of the file, "" when it is."""
    if pair.f2p not in (None, f2p) or pair.p2p not in (None, p2p):
        return f"the file says f2p {pair.f2p}, p2p {pair.p2p}; measured here {f2p} and {p2p}"
    if f2p == 0:
        return "no hidden test turns from failing to passing"
    if 3 * gold_s > TIMEOUT_S:
        return f"the hidden tests take {gold_s:.0f} s here; the limit of {TIMEOUT_S:.0f} s must be 3 times that"
    return ""


def _prompt(pair: PairSection, new: Files) -> bytes:
    texts = {
        path.decode("utf-8", "replace"): entry.content.decode("utf-8", "replace")
        for path, entry in new.items()
        if not is_test(path) and not is_metadata(path) and entry.mode != LINK
    }
    notes = entries_between(texts, pair.old, pair.new)
    head = f"This is the source of {pair.name} {pair.old}. "
    if notes is None:
        return (
            f"{head}Bring its behaviour to that of the next release, {pair.new}. The project publishes no notes for it "
            "here: look for what its code promises and does not do, and for what a user would report.\n"
        ).encode()
    return f"{head}Make the changes that the project announces for {pair.new}:\n\n{notes}\n".encode()


def _write_files(stage: Path, split: SplitPair, prompt: bytes) -> None:
    _write_all(stage / "repo", split.base)
    _write_all(stage / "sealed" / "tests", split.hidden)
    gold = difference(split.old_other, split.new_other)
    if not gold:
        raise UsageError(
            f"{stage.name}: the two releases differ in nothing but tests and metadata; there is no task in it"
        )
    (stage / "sealed" / "gold.patch").write_bytes(gold)
    (stage / "prompt.md").write_bytes(prompt)


def _write_all(root: Path, files: Files) -> None:
    for entry in files.values():
        path = os.path.join(os.fsencode(root), entry.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if entry.mode == LINK:
            os.symlink(entry.content, path)
            continue
        with open(path, "xb") as file:
            file.write(entry.content)
        os.chmod(path, 0o755 if entry.mode == EXECUTABLE else 0o644)


def _write_toml(
    stage: Path, pair: PairSection, split: SplitPair, licence: str | None, f2p: tuple[str, ...], p2p: tuple[str, ...]
) -> None:
    path = "src" if any(name.startswith(b"src/") for name in split.base) else "."
    dropped = [name.decode() for name in split.dropped]
    lines = [
        "schema_version = 1",
        f"id = {_toml(pair.task_id)}",
        f"repository = {_toml(pair.name)}",
        *([f"licence = {_toml(licence)}"] if licence else []),
        f"source = {_toml(f'release pair {pair.name} {pair.old} -> {pair.new}')}",
        "",
        "[image]",
        'base = "python"',
        f"recipe = {{ pip = {_toml(list(RECIPE))} }}",
        "",
        "[verify]",
        f"command = {_toml(COMMAND)}",
        'runner = "pytest"',
        f"timeout_s = {TIMEOUT_S:g}",
        f"env = {{ PYTHONPATH = {_toml(path)} }}",
        *([f"remove = {_toml(dropped)}"] if dropped else []),
        f"f2p = {_toml_lines(f2p)}",
        f"p2p = {_toml_lines(p2p)}",
        "",
    ]
    (stage / "task.toml").write_text("\n".join(lines), "utf-8")


def _toml(value: str | list[str]) -> str:
    """A string or a list of strings as TOML: a basic string is a JSON string, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_lines(values: tuple[str, ...]) -> str:
    return "[\n" + "".join(f"    {_toml(value)},\n" for value in values) + "]"
