"""A study's evidence under any order of what people and crashes do to it: what is accepted is whole, what happened
is told."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cells.errors import ConflictError
from cells.evidence.catalog import catalog_document, rebuild
from cells.evidence.history import History
from cells.evidence.lifecycle.marks import archive, label, unarchive, withdraw
from cells.evidence.quarantine import quarantine
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, empty_study, staged_attempt
from cells.evidence.study_store import StudyStore
from cells.evidence.units import publish_unit, reconcile, stages
from cells.evidence.verify import verify_path

TASKS = st.sampled_from(["a", "b", "c"])
VERDICTS = st.sampled_from(["resolved", "unresolved", "invalid", "not_run"])


class StudyMachine(RuleBasedStateMachine):
    """The model: which cells are accepted, by which bytes; everything else must follow."""

    @initialize()
    def start(self) -> None:
        memory = Path("/dev/shm")
        self.place = Path(tempfile.mkdtemp(prefix="assay-machine-", dir=memory if memory.is_dir() else None))
        self.store = empty_study(self.place, "s")
        self.accepted: dict[str, str] = {}
        self.published = 0

    @rule(task=TASKS, verdict=VERDICTS)
    def run_a_cell(self, task: str, verdict: str) -> None:
        cell = Specimen(task=task).spec.directory
        with self.store.writing():
            if cell in self.accepted and verdict != "not_run":
                stage, ids = staged_attempt(self.store, Specimen(task=task, verdict=verdict))
                stage.release()
                try:
                    publish_unit(self.store, stage, "attempt", ids)
                    raise AssertionError("a second result of one cell was accepted")
                except ConflictError:
                    assert not (self.store.path / stage.unit).exists()
                    quarantine(self.store, f".stage/{stage.unit}", "a second result of one cell")
                return
            unit = add_attempt(self.store, Specimen(task=task, verdict=verdict))
        self.published += 1
        if verdict != "not_run":
            self.accepted[cell] = unit.digest

    @rule(task=TASKS)
    def die_before_publishing(self, task: str) -> None:
        with self.store.writing():
            staged_attempt(self.store, Specimen(task=task))[0].release()

    @rule()
    def go_on_after_a_death(self) -> None:
        self.store = StudyStore.open(StudiesRoot.open(self.place), "s", frozen=True)
        with self.store.writing():
            reconcile(self.store)
            for stage in stages(self.store):
                quarantine(self.store, f".stage/{stage.unit}", "its owner died")

    @precondition(lambda self: bool(self.accepted))
    @rule(data=st.data())
    def lose_trust_in_a_bundle(self, data: st.DataObject) -> None:
        cell = data.draw(st.sampled_from(sorted(self.accepted)))
        with self.store.writing():
            quarantine(self.store, self.store.accepted()[cell].path, "a drill")
        del self.accepted[cell]

    @precondition(lambda self: bool(self.accepted))
    @rule(data=st.data())
    def withdraw_a_claim(self, data: st.DataObject) -> None:
        cell = data.draw(st.sampled_from(sorted(self.accepted)))
        withdraw(self.store, self.store.accepted()[cell].path, "a drill")

    @rule(text=st.sampled_from(["x", "y"]))
    def mark(self, text: str) -> None:
        label(self.store, ".", add=[text])
        archive(self.store)
        unarchive(self.store)

    @rule()
    def tear_the_ledger(self) -> None:
        with (self.store.path / "ledger.jsonl").open("ab") as stream:
            stream.write(b'{"torn')
        self.store.ledger.settle()

    @rule()
    def rebuild_what_is_derived(self) -> None:
        (self.store.path / "latest.json").unlink(missing_ok=True)
        assert rebuild(self.store) == rebuild(self.store)

    @invariant()
    def the_study_is_what_it_says(self) -> None:
        assert verify_path(self.store.path).problems == []
        assert {cell: unit.digest for cell, unit in self.store.accepted().items()} == self.accepted

    @invariant()
    def another_reader_sees_the_same(self) -> None:
        other = StudyStore.open(StudiesRoot.open(self.place), "s")
        rows, head = other.ledger.rows(), other.ledger.head
        assert head == self.store.ledger.head
        assert catalog_document(rows, head) == catalog_document(self.store.ledger.rows(), head)
        assert History.of(rows).names == self.store.history().names

    def teardown(self) -> None:
        if hasattr(self, "place"):
            shutil.rmtree(self.place, ignore_errors=True)


TestStudyMachine = StudyMachine.TestCase
TestStudyMachine.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
