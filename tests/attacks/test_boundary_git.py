"""A cell prepares its repository so that git would run code, hide changes or show others, wherever somebody runs it.

Naive: `git add -A && git diff --cached` on the agent's tree runs filters, hooks and drivers of the agent's choice, on
the host, as whoever measures. Ours: the agent's repository is not used at all; the patch is its tree, byte for byte.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from cells.artifacts import Role
from cells.outcome import PatchState, Verdict
from scoring.collected import read_collected
from tests.scoring.calc_task import RIGHT, Bench
from tests.scoring.live_cells import live_cell, post

pytestmark = [pytest.mark.engine, pytest.mark.attack]
MARK = "PWNED-BY-GIT"
RUN = f"sh -c 'echo {MARK} >> src/calc.py; echo {MARK} > /tmp/pwned; cat'"
FIX = f"echo {base64.b64encode(RIGHT).decode()} | base64 -d > src/calc.py"
HOOK = f"printf '#!/bin/sh\\necho {MARK} >> src/calc.py\\n' > h/post-index-change"
ME = "-c user.name=x -c user.email=x@x"

RUNS_CODE = {
    "fsmonitor": f'git config core.fsmonitor "{RUN}"',
    "hooks": f"mkdir h; {HOOK}; chmod +x h/*; mkdir -p .git/hooks; cp h/* .git/hooks; git config core.hooksPath $PWD/h",
    "included configuration": f'printf "[core]\\n fsmonitor = {MARK}\\n" > inc; git config include.path ../inc',
    "configuration of a work tree": "git config extensions.worktreeConfig true;"
    f' printf "[core]\\n fsmonitor = echo {MARK}\\n" > .git/config.worktree',
    "external diff": f'git config diff.external "{RUN}"',
    "diff driver": f'git config diff.evil.command "{RUN}"; echo "* diff=evil" >> .gitattributes',
    "text conversion": f'git config diff.evil.textconv "{RUN}"; echo "*.py diff=evil" >> .gitattributes',
    "clean filter": f'git config filter.evil.clean "{RUN}"; echo "* filter=evil" >> .gitattributes',
    "process filter": f'git config filter.more.process "{RUN}"; git config filter.more.required true;'
    ' echo "* filter=more" >> .gitattributes',
    "smudge filter": f'git config filter.evil.smudge "{RUN}"; echo "* filter=evil" >> .gitattributes',
    "an alias for every word": f'for word in add diff status apply; do git config alias.$word "!{RUN}"; done',
    "a pager and an editor": f'git config core.pager "{RUN}"; git config core.editor "{RUN}"',
}
HIDES = {
    "ident and eol": 'printf "* ident text eol=crlf working-tree-encoding=UTF-16\\n" >> .gitattributes',
    "no diff at all": 'echo "* -diff binary" >> .gitattributes',
    "attributes of the repository": 'mkdir -p .git/info; echo "* -diff export-ignore" > .git/info/attributes',
    "excluded": 'echo "*" > .git/info/exclude; echo "*" > .gitignore',
    "assume unchanged": "git update-index --assume-unchanged src/calc.py",
    "skip worktree": "git update-index --skip-worktree src/calc.py",
    "alternate objects": "mkdir -p .git/objects/info; echo /assay/collector.git/objects > .git/objects/info/alternates",
    "a nested repository": f"mkdir deps; cd deps; git init -q; git {ME} commit -q --allow-empty -m x; cd ..",
    "a commit of it all": f"git add -A; git {ME} commit -qm x; true",
    "another work tree": "mkdir other; git config core.worktree $PWD/other",
}
MOVES = {
    "a repository elsewhere": "mv .git /tmp/moved; echo 'gitdir: /tmp/moved' > .git",
    "no repository": "rm -rf .git",
    "a repository that is a file of its own": "rm -rf .git; echo junk > .git",
}
ALONE = RUNS_CODE | HIDES | MOVES


def _bites_nobody(calc: Bench, root: Path, vector: str) -> None:
    script = f"export HOME=/tmp; git config --global safe.directory '*'; {FIX}; {vector}"
    with live_cell(calc, root, script) as (sealed, collector):
        result = post(calc, sealed, collector)
    assert sealed.facts["ended"] == "completed", sealed.facts["detail"]
    assert read_collected(sealed).is_exact, "base and patch give the agent's tree"
    patch = sealed.read("post/calc-1.unfiltered.patch", Role.SCORING)
    assert b"+    return a + b\n" in patch
    assert f"+{MARK}".encode() not in patch
    assert not Path("/tmp/pwned").exists()
    assert (result.patch, result.verdict) == (PatchState.PRESENT, Verdict.RESOLVED), result.reason


@pytest.mark.parametrize("vectors", [RUNS_CODE, HIDES], ids=["runs code", "hides changes"])
def test_a_repository_with_every_trap_at_once_bites_nobody(
    calc: Bench, tmp_path: Path, vectors: dict[str, str]
) -> None:
    _bites_nobody(calc, tmp_path / "a001", "; ".join(vectors.values()))


@pytest.mark.parametrize("vector", sorted(MOVES))
def test_a_repository_that_was_moved_away_is_not_missed(calc: Bench, tmp_path: Path, vector: str) -> None:
    _bites_nobody(calc, tmp_path / "a001", MOVES[vector])


@pytest.mark.full
@pytest.mark.parametrize("vector", sorted(ALONE))
def test_each_trap_alone_bites_nobody_and_the_fix_beside_it_counts(calc: Bench, tmp_path: Path, vector: str) -> None:
    _bites_nobody(calc, tmp_path / "a001", ALONE[vector])
