"""A verifier that cannot prove itself on the base says nothing about the candidate; what the candidate breaks is its
own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cells.outcome import Verdict
from scoring.judge import BROKE, FAILED, PASSED
from scoring.verification import SELF_CHECK
from tests.scoring.attempts import make_task
from tests.scoring.calc_task import FILES, RIGHT, TOML, WRONG, Bench

pytestmark = [pytest.mark.engine, pytest.mark.attack]

SCRIPT = """\
schema_version = 1
id = "calc-1"
repository = "calc"
[image]
base = "python"
[verify]
command = ["sh", "{pack}/verify.sh", "{report}"]
runner = "script"
timeout_s = 20
f2p = ["reward"]
"""
HONEST = b"""#!/bin/sh
cd src && python3 -c 'import calc, sys; sys.exit(calc.add(2, 3) != 5)' && echo 1.0 > "$1" || echo 0 > "$1"
"""
TAP = """\
schema_version = 1
id = "calc-1"
repository = "calc"
[image]
base = "python"
[verify]
command = ["sh", "-c", "sh tests/t.sh > {report}"]
runner = "tap"
timeout_s = 20
f2p = ["adds"]
p2p = ["subtracts"]
"""
TAP_TEST = b"""#!/bin/sh
cd src; echo 1..2
python3 -c 'import calc, sys; sys.exit(calc.add(2, 3) != 5)' && echo "ok 1 - adds" || echo "not ok 1 - adds"
python3 -c 'import calc, sys; sys.exit(calc.sub(2, 3) != -1)' && echo "ok 2 - subtracts" || echo "not ok 2 - subtracts"
"""


def other(bench: Bench, where: Path, toml: str, sealed: Mapping[str, bytes]) -> Bench:
    """The same image with another verifier."""
    repo = {name: content for name, content in FILES.items() if name.startswith("repo/")}
    return bench.with_task(make_task(where, toml, {**repo, **sealed}))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (b"#!/bin/sh\nexec no-such-test-runner --all\n", "exit 127"),
        (b"#!/bin/sh\nexec /etc/passwd\n", "exit 126"),
        (b"#!/bin/sh\necho 'collected 0 items'\nexit 0\n", "report missing"),
        (b'#!/bin/sh\nprintf \'{"reward": 1\' > "$1"\nkill -9 $$\n', "not a whole JSON document"),
        (b'#!/bin/sh\necho 1 > "$1"\n', "the base has reward 1"),
        (b'#!/bin/sh\necho nan > "$1"\n', "expected a finite number"),
    ],
    ids=["missing tool", "no program", "no tests", "half a report", "passes the base", "no number"],
)
def test_a_script_that_does_not_prove_itself_is_invalid(calc: Bench, tmp_path: Path, script: bytes, words: str) -> None:
    """Naive: exit code and reward are believed, and a verifier that cannot start scores 0."""
    found = other(calc, tmp_path, SCRIPT, {"sealed/verify.sh": script}).verify({"src/calc.py": RIGHT})
    assert (found.verdict, found.reason) == (Verdict.INVALID, SELF_CHECK)
    assert words in found.detail and found.candidate is None


@pytest.mark.parametrize(
    ("candidate", "verdict", "reason"),
    [
        (RIGHT, Verdict.RESOLVED, PASSED),
        (WRONG + b"# changed\n", Verdict.UNRESOLVED, FAILED),
        (b"import os, signal; os.kill(os.getppid(), signal.SIGKILL)\n", Verdict.UNRESOLVED, BROKE),
    ],
    ids=["right", "wrong", "kills the script"],
)
def test_a_script_that_proves_itself_decides(
    calc: Bench, tmp_path: Path, candidate: bytes, verdict: Verdict, reason: str
) -> None:
    found = other(calc, tmp_path, SCRIPT, {"sealed/verify.sh": HONEST}).verify({"src/calc.py": candidate})
    assert (found.verdict, found.reason) == (verdict, reason)


@pytest.mark.parametrize(("candidate", "verdict"), [(RIGHT, Verdict.RESOLVED), (WRONG + b"#\n", Verdict.UNRESOLVED)])
def test_a_tap_verifier_proves_itself_on_the_base(
    calc: Bench, tmp_path: Path, candidate: bytes, verdict: Verdict
) -> None:
    found = other(calc, tmp_path, TAP, {"sealed/tests/tests/t.sh": TAP_TEST}).verify({"src/calc.py": candidate})
    assert found.verdict is verdict
    assert found.self_check is not None and found.self_check.canary and found.self_check.pinned_pass


def test_a_canary_from_a_template(calc: Bench, tmp_path: Path) -> None:
    """The template becomes a test beside the hidden ones, under a name that is drawn for the run."""
    template = b"# assay-canary: tests/{name}.sh\necho 'not ok 1 - {name}'\n"
    all_of_them = (
        "for t in tests/*.sh; do (sh $t); done | grep ok > /tmp/o; cat /tmp/o > {report}; echo 1..3 >> {report}"
    )
    toml = TAP.replace("sh tests/t.sh > {report}", all_of_them)
    toml = toml.replace("timeout_s = 20", 'timeout_s = 20\ncanary = "canary.sh"')
    sealed = {"sealed/tests/tests/t.sh": TAP_TEST, "sealed/canary.sh": template}
    bench = other(calc, tmp_path, toml, sealed)
    found = bench.verify({"src/calc.py": RIGHT})
    assert found.verdict is Verdict.RESOLVED, found
    assert found.self_check is not None and found.self_check.canary and found.self_check.pinned_pass
    forged = b"import os, sys\nopen('/tmp/o', 'w').write('ok 1 - adds\\nok 2 - subtracts\\nok 3 - x\\n')\n"
    assert bench.verify({"src/calc.py": WRONG + forged}).verdict is Verdict.UNRESOLVED


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"python3", "-m", "pytest"', '"python3", "-m", "no_such_runner"'), "report missing"),
        (('"python3", "-m", "pytest"', '"no-such-program"'), "exit 127"),
        ((TOML[TOML.index("p2p") :], 'p2p = ["tests.test_calc::test_gone"]\n'), "test_gone is missing"),
        (('"-q"', '"-q", "--deselect", "tests/test_calc.py"'), "missing"),
    ],
    ids=["no runner", "no program", "pinned test missing", "canary never runs"],
)
def test_a_pytest_verifier_that_does_not_prove_itself_is_invalid(
    calc: Bench, tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    """Naive: no test failed."""
    toml = TOML.replace(*change)
    found = other(calc, tmp_path, toml, {"sealed/tests/tests/test_calc.py": FILES["sealed/tests/tests/test_calc.py"]})
    result = found.verify({"src/calc.py": RIGHT})
    assert (result.verdict, result.reason) == (Verdict.INVALID, SELF_CHECK)
    assert words in result.detail


def test_a_pinned_test_that_fails_on_the_base_is_invalid(calc: Bench, tmp_path: Path) -> None:
    failing = FILES["sealed/tests/tests/test_calc.py"].replace(b"sub(3, 1) == 2", b"sub(3, 1) == 3")
    found = other(calc, tmp_path, TOML, {"sealed/tests/tests/test_calc.py": failing}).verify({"src/calc.py": RIGHT})
    assert (found.verdict, found.reason) == (Verdict.INVALID, SELF_CHECK)
    assert found.self_check is not None and found.self_check.canary and found.self_check.pinned_pass is False


def test_without_any_p2p_the_canary_stands_alone(calc: Bench, tmp_path: Path) -> None:
    """The only hidden file cannot even be imported on the base; the verifier proves itself all the same."""
    start = TOML.index("p2p")
    hidden = b"from calc import add, mul\n\n\ndef test_add_of_two():\n    assert add(2, 3) == mul(1, 5)\n"
    bench = other(calc, tmp_path, TOML[:start], {"sealed/tests/tests/test_calc.py": hidden})
    found = bench.verify({"src/calc.py": RIGHT + b"def mul(a, b):\n    return a * b\n"})
    assert (found.verdict, found.reason) == (Verdict.RESOLVED, PASSED), found
    assert found.self_check is not None and found.self_check.pinned_pass is None
    assert bench.verify({"src/calc.py": RIGHT}).verdict is Verdict.UNRESOLVED


def test_a_command_that_stops_at_the_first_failure_is_not_stopped_by_the_canary(calc: Bench, tmp_path: Path) -> None:
    toml = TOML.replace('"-q"', '"-qx"')
    bench = other(calc, tmp_path, toml, {"sealed/tests/tests/test_calc.py": FILES["sealed/tests/tests/test_calc.py"]})
    assert bench.verify({"src/calc.py": RIGHT}).verdict is Verdict.RESOLVED
    assert bench.verify({"src/calc.py": WRONG + b"#\n"}).verdict is Verdict.UNRESOLVED


def test_a_removed_old_test_is_gone_before_the_hidden_ones_run(calc: Bench, tmp_path: Path) -> None:
    toml = TOML.replace("timeout_s = 20", 'timeout_s = 20\nremove = ["README.md"]')
    hidden = FILES["sealed/tests/tests/test_calc.py"] + b"\n\nimport os\nassert not os.path.exists('README.md')\n"
    found = other(calc, tmp_path, toml, {"sealed/tests/tests/test_calc.py": hidden}).verify({"src/calc.py": RIGHT})
    assert found.verdict is Verdict.RESOLVED
