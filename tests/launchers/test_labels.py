"""Whose a container is, and when anybody may remove it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.sandbox import Owner
from launchers.labels import DEADLINE, OWNER, OwnerProcess, labels_of, start_ticks, this_process, why_reapable

HERE = OwnerProcess(10, 100, "boot-1", "4026531836")
NOW = 1_800_000_000.0
RUNNING = {10: 100, 11: 7}


def verdict(owner: OwnerProcess | str, deadline: str = "1800000600") -> str | None:
    label = owner if isinstance(owner, str) else owner.label()
    return why_reapable({OWNER: label, DEADLINE: deadline}, HERE, NOW, RUNNING.get)


def test_what_a_living_process_made_is_left_alone() -> None:
    assert verdict(HERE) is None
    assert verdict(OwnerProcess(11, 7, "boot-1", HERE.namespace)) is None


def test_the_owner_is_dead_when_its_pid_is_gone() -> None:
    assert verdict(replace(HERE, pid=99)) == "owner_dead"


def test_the_owner_is_dead_when_a_later_process_has_its_pid() -> None:
    assert verdict(replace(HERE, pid=11, started=6)) == "owner_dead"


def test_the_owner_is_dead_when_the_machine_booted_since() -> None:
    assert verdict(replace(HERE, boot_id="boot-0")) == "owner_dead"


def test_of_an_owner_in_another_pid_namespace_only_the_deadline_decides() -> None:
    elsewhere = replace(HERE, pid=99, namespace="4026532000")
    assert verdict(elsewhere) is None
    assert verdict(elsewhere, deadline="1799999999") == "deadline_passed"


def test_a_passed_deadline_ends_even_what_a_living_process_made() -> None:
    assert verdict(HERE, deadline="1799999999") == "deadline_passed"


@pytest.mark.parametrize("label", ["", "me", "1.2.3", "x.2.boot.ns", "1.-2.boot.ns", "1.2.3.4.5"])
def test_a_label_that_names_no_process_belongs_to_nobody(label: str) -> None:
    assert OwnerProcess.parse(label) is None
    assert verdict(label) is None
    assert verdict(label, deadline="soon") is None
    assert verdict(label, deadline="1799999999") == "deadline_passed"


@given(st.integers(1, 2**22), st.integers(0, 2**60), st.uuids().map(str), st.integers(1, 2**32).map(str))
def test_a_label_says_again_what_it_was_made_from(pid: int, started: int, boot: str, namespace: str) -> None:
    owner = OwnerProcess(pid, started, boot, namespace)
    assert OwnerProcess.parse(owner.label()) == owner


def test_this_process_is_alive_to_itself() -> None:
    here = this_process()
    assert here.pid == os.getpid() and here.started == start_ticks(os.getpid())
    labels = labels_of(Owner("s", "c", "a001", "agent", 60.0), here, NOW)
    assert why_reapable(labels, here, NOW) is None
    assert why_reapable(labels, here, NOW + 61) == "deadline_passed"
    assert labels == {
        "assay.study": "s",
        "assay.cell": "c",
        "assay.attempt": "a001",
        "assay.role": "agent",
        "assay.owner": here.label(),
        "assay.deadline": "1800000060",
    }
