"""What hidden tests say on this machine, without any verdict: for a task whose expected tests are not known yet.

The same container, order and report as a verification (25-formats): sealed tests over the base, then over base + gold.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cells.design.limits import study_limits
from cells.design.study_model import LimitsSection
from cells.errors import EnvironmentFault, InfraFailure, VerifierInvalid
from cells.incell.trusted.names import encode_name
from cells.sandbox import Owner, SandboxFactory
from cells.tasks import FrozenTask
from cells.tasks.image import TaskImage
from flows.task_import import Measure, Measured
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.images import build_task_image
from scoring.judge import RunFacts
from scoring.pack import read_pack
from scoring.reports import ReportUnreadable, read_report
from scoring.verifier_session import CandidateDied, VerifierSetting, open_verifier

_DEADLINE_S = 3600.0


def measurer(engine: Engine, build: Callable[[FrozenTask, Engine], TaskImage] = build_task_image) -> Measure:
    """Measures tasks on an engine, in their own images. EnvironmentFault when an image cannot be built here."""
    sandboxes = DockerSandboxes(engine)

    def measure(task: FrozenTask) -> Measured:
        try:
            image = build(task, engine)
        except InfraFailure as failure:
            raise EnvironmentFault(f"{task.id}: {failure}") from failure
        return measure_tests(task, image, sandboxes)

    return measure


def measure_tests(
    task: FrozenTask, image: TaskImage, sandboxes: SandboxFactory, stop: threading.Event | None = None
) -> Measured:
    """Which tests pass before and after the gold patch. EnvironmentFault when the runner gives no report here."""
    pack = read_pack(task)
    setting = VerifierSetting(
        owner=Owner(study="", cell=task.id, attempt="", role="verifier", deadline_s=_DEADLINE_S),
        image_id=image.image_id,
        workdir=image.workdir,
        runner=task.verify.runner,
        limits=study_limits(LimitsSection(**task.limits.model_dump(exclude_none=True))),
        environment=task.verify.env,
    )
    request = {
        "command": list(task.verify.command),
        "select": [],
        "timeout_s": task.verify.timeout_s,
        "remove": [encode_name(path.encode()) for path in task.verify.remove],
    }
    unfiltered: dict[str, list[str]] = {"changes": [], "allowed": [], "import_roots": []}
    try:
        with open_verifier(setting, sandboxes, stop or threading.Event(), time.monotonic) as session:
            session.hand_over("tree", pack.tests)
            session.hand_over("beside", pack.beside)
            before = session.run_on_base(request)
            prepared, after = session.run_on_patch(request | unfiltered, task.gold_patch())
    except (VerifierInvalid, CandidateDied) as error:
        raise EnvironmentFault(f"{task.id}: its tests cannot be run here: {error}") from error
    if after is None:
        raise EnvironmentFault(f"{task.id}: its gold patch does not apply to its base state: {prepared.problem}")
    return Measured(_passed(task, before), _passed(task, after), after.duration_s)


def _passed(task: FrozenTask, facts: RunFacts) -> frozenset[str]:
    try:
        report = read_report(task.verify.runner, facts.report, task.workdir)
    except ReportUnreadable as problem:
        log = facts.log.decode("utf-8", "replace").strip()[-1500:]
        raise EnvironmentFault(
            f"{task.id}: the test command gave no report here ({facts.report_state}: {problem}):\n{log}"
        ) from problem
    return frozenset(name for name, state in report.tests.items() if state == "passed" and name not in report.repeated)
