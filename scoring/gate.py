"""The gate: what of the unfiltered patch goes to the verifier, and whether any does; `<task>.patch`, patch_gate.*,
gate.json.

Rules:
1. Pure in its inputs (collection, task): the same files every time, so that a killed step is simply taken again.
2. That the whole patch applies was proved by the collector's round trip; that a part of it does is proved by the
   verifier.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from cells.artifacts import Role, Writer
from cells.attempt import SealedAttempt
from cells.evidence.digest import digest_bytes
from cells.incell.trusted.machinery import import_roots
from cells.outcome import PatchState
from cells.tasks.frozen import FrozenTask
from scoring.canary import modules_of
from scoring.collected import Change, Collected, filtered_name, unfiltered_name
from scoring.documents import GateFile, put_document
from scoring.pack import VerifierPack
from scoring.patch import Section, join, sections_of
from scoring.policy import Decision, PatchPolicy, decide
from scoring.step_files import put

GATE_VERSION = 1
NAME = "post/gate.json"
TEXT, STDERR = "post/patch_gate.txt", "post/patch_gate.stderr"
_LISTED = 200


@dataclass(frozen=True)
class Gated:
    """What came through: state, the filtered patch, the changes that it makes."""

    decision: Decision
    patch: bytes

    @property
    def state(self) -> PatchState:
        """The patch state of the attempt."""
        return self.decision.state

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that the filtered patch makes, each once."""
        return tuple({section.path: section.change for section in self.decision.kept}.values())


def gate(sealed: SealedAttempt, task: FrozenTask, pack: VerifierPack, collected: Collected) -> Gated:
    """Decide, and write or adopt the gate's files."""
    sections = sections_of_collection(sealed, collected)
    decision = decide(collected, sections, policy_of(task, pack))
    gated = Gated(decision, join(decision.kept) if decision.state is PatchState.PRESENT else b"")
    round_trip = collected.patch.round_trip
    put(sealed, filtered_name(task.id), gated.patch, Writer.GATE)
    put(sealed, STDERR, (round_trip.stderr if round_trip else "").encode("utf-8", "replace"), Writer.GATE)
    put(sealed, TEXT, gate_text(collected, sections, decision), Writer.GATE)
    put_document(sealed, NAME, GateFile, gate_document(collected, sections, gated), Writer.GATE)
    return gated


def sections_of_collection(sealed: SealedAttempt, collected: Collected) -> list[Section]:
    """The sections of the unfiltered patch; none when a cap left it out."""
    if collected.over_cap is not None:
        return []
    return sections_of(sealed.read(unfiltered_name(collected.task), Role.SCORING), collected.facts.changes)


def policy_of(task: FrozenTask, pack: VerifierPack) -> PatchPolicy:
    """The policy that a task and its pack make."""
    removed = {path.encode("utf-8", "surrogateescape") for path in task.verify.remove}
    return PatchPolicy(
        runner=task.verify.runner,
        workdir=task.workdir,
        gold=pack.gold,
        hidden=frozenset({file.path for file in pack.tests} | removed),
        expected_modules=modules_of((*task.verify.f2p, *task.verify.p2p)),
        import_roots=import_roots(task.verify.env, task.workdir),
    )


def counts_of(collected: Collected, sections: list[Section], decision: Decision) -> dict[str, int | None]:
    """What the patch consists of: counts over the whole listing, and of what was dropped."""
    changes = collected.facts.changes
    binary = {section.path for section in sections if section.binary}
    return {
        "changed": collected.facts.changes_total,
        "added": sum(change.status == "A" for change in changes),
        "deleted": sum(change.status == "D" for change in changes),
        "modified": sum(change.status == "M" for change in changes),
        "type_changed": sum(change.status == "T" for change in changes),
        "mode_changed": sum(change.status == "M" and change.old_mode != change.new_mode for change in changes),
        "binary": len(binary),
        "ignored": sum(change.ignored for change in changes),
        "links": sum(change.new_mode == "120000" for change in changes),
        "nested_git": sum(entry.reason == "git" and entry.path != ".git" for entry in collected.facts.left_out),
        "special": sum(
            count for reason, count in collected.facts.left_out_counts.items() if reason not in ("git", "too_deep")
        ),
        "too_deep": collected.facts.left_out_counts.get("too_deep", 0),
        "hard_linked": collected.facts.hard_linked,
        "kept": len({section.path for section in decision.kept}),
        "dropped": len({dropped.section.path for dropped in decision.dropped}),
    }


def gate_document(collected: Collected, sections: list[Section], gated: Gated) -> dict[str, Any]:
    """gate.json."""
    decision = gated.decision
    return {
        "v": GATE_VERSION,
        "state": decision.state.value,
        "rejections": list(decision.rejections),
        "patch": digest_bytes(gated.patch),
        "patch_bytes": len(gated.patch),
        "round_trip": None if collected.patch.round_trip is None else collected.patch.round_trip.ok,
        "counts": counts_of(collected, sections, decision),
        "dropped": [
            {"path": dropped.section.change.path, "status": dropped.section.change.status, "reason": dropped.reason}
            for dropped in decision.dropped
        ],
        "dropped_by_reason": dict(sorted(Counter(dropped.reason for dropped in decision.dropped).items())),
    }


def gate_text(collected: Collected, sections: list[Section], decision: Decision) -> bytes:
    """patch_gate.txt: the same for people."""
    counts = counts_of(collected, sections, decision)
    lines = [f"patch: {decision.state.value}"]
    lines += [f"rejected: {reason}" for reason in decision.rejections]
    lines.append(f"base + patch == tree: {'proved' if collected.is_exact else 'not proved'}")
    lines += [f"{name}: {'unknown' if count is None else count}" for name, count in counts.items()]
    lines += [f"dropped {dropped.section.change.path} ({dropped.reason})" for dropped in decision.dropped]
    left_out = [entry for entry in collected.facts.left_out if entry.path != ".git"][:_LISTED]
    lines += [f"not in the tree {entry.path} ({entry.reason})" for entry in left_out]
    return "".join(line + "\n" for line in lines).encode("utf-8")
