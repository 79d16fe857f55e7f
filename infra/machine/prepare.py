"""All of set-up in its order: packages first, then the environment beside engine and base image.

Rules:
1. Root installs what is missing; anybody else is told what must be there, and what does not need it goes on.
2. Every failure is told, not only the first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cells.errors import EnvironmentFault
from infra.machine import packages
from infra.machine.engine import EnginePlace, ensure_engine
from infra.machine.environment import Environment, can_make_environments, ensure_environment
from infra.machine.steps import Steps
from launchers.base_image import EngineApi, ensure_base_image, load_recipe


@dataclass(frozen=True)
class Machine:
    """What is prepared: the checkout, for the tests (`dev`) or only for a study, and extra programs."""

    root: Path
    dev: bool
    programs: tuple[packages.Program, ...]

    def log(self, name: str) -> Path:
        """A log file of set-up, inside the checkout and ignored by git."""
        return self.root / ".cache" / f"{name}.log"


def prepare(machine: Machine, steps: Steps) -> tuple[EnvironmentFault | None, EnvironmentFault | None]:
    """Do all of it; the faults of the environment and of engine or base image, None where there was none."""
    _packages(machine, steps)
    with ThreadPoolExecutor(max_workers=2) as pool:
        environment = pool.submit(_environment, machine, steps)
        engine = pool.submit(_engine_and_image, machine, steps)
    return _fault(environment), _fault(engine)


def _packages(machine: Machine, steps: Steps) -> None:
    lacking = packages.missing(_wanted(machine))
    if not lacking:
        return
    if os.geteuid() != 0 or packages.find_program("apt-get") is None:
        for program in lacking:
            steps.say(f"{program.name} is missing (Debian package {program.package}): needed for {program.purpose}")
        return
    with steps.step("packages") as step:
        packages.install([program.package for program in lacking], machine.log("apt"))
        step.outcome = "installed " + ", ".join(program.package for program in lacking)


def _wanted(machine: Machine) -> list[packages.Program]:
    engine = EngineApi.from_environment(os.environ)
    answers = _asked(lambda: bool(engine.info()))
    holds_image = answers and _asked(lambda: engine.image(load_recipe().tag) is not None)
    return [
        *machine.programs,
        *([] if holds_image else [packages.MMDEBSTRAP]),
        *([] if answers or "DOCKER_HOST" in os.environ else [packages.DOCKERD]),
        *([] if can_make_environments() else [packages.PYTHON_VENV]),
    ]


def _environment(machine: Machine, steps: Steps) -> None:
    with steps.step("environment") as step:
        step.outcome = ensure_environment(Environment(machine.root, machine.dev), machine.log("pip"))


def _engine_and_image(machine: Machine, steps: Steps) -> None:
    with steps.step("engine") as step:
        step.outcome = ensure_engine(EnginePlace.default(), os.environ, machine.log("apt"))
    with steps.step("base image") as step:
        image = ensure_base_image(EngineApi.from_environment(os.environ), load_recipe(), steps.say)
        step.outcome = f"{image.tag}, {'built' if image.built else 'there'}"


def _asked(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except EnvironmentFault:
        return False


def _fault(done: Future[None]) -> EnvironmentFault | None:
    error = done.exception()
    if error is not None and not isinstance(error, EnvironmentFault):
        raise error
    return error


def main(arguments: Sequence[str], root: Path) -> int:
    """`infra/prepare`: exit 0 ready, 3 not; with `--engine-optional` stdout says `engine` or `no-engine`."""
    parser = argparse.ArgumentParser(prog="infra/prepare", description="Prepare this machine for Assay.")
    parser.add_argument("--dev", action="store_true", help="for the tests")
    parser.add_argument("--chromium", action="store_true", help="with a browser, for the tests that look at a report")
    parser.add_argument("--engine-optional", action="store_true", help="a missing engine is no failure")
    options = parser.parse_args(arguments)
    programs = packages.FOR_TEST if options.dev else packages.FOR_RUN
    extra = (packages.CHROMIUM,) if options.chromium else ()
    try:
        environment, engine = prepare(Machine(root, options.dev, programs + extra), Steps())
    except EnvironmentFault as fault:
        environment, engine = fault, None
    for problem in filter(None, (environment, engine)):
        print(f"set-up: {problem}", file=sys.stderr)
    if options.engine_optional:
        print("no-engine" if engine else "engine")
    refused = environment or (engine and not options.engine_optional)
    return EnvironmentFault.exit_code if refused else 0
