"""Conditions under which a role may read a file, each with its meaning and with who checks it.

Rules:
1. A `READER` condition is checked by our readers from the request itself.
2. A `PURPOSE` condition is the use that the contract allows: a post-run reader names the one it reads for, so that
   the use stands in the code and in the refusal.
3. A live role never gets a file by a purpose.
"""

from __future__ import annotations

from enum import Enum, StrEnum


class CheckedBy(StrEnum):
    """Who can tell whether a condition holds."""

    READER = "reader"
    PURPOSE = "purpose"


class Condition(Enum):
    """A condition: its word, who checks it, what it means."""

    PREFIX_ONLY = ("prefix_only", CheckedBy.READER, "only rows through the current turn")
    NAMED_FIELDS = ("named_fields", CheckedBy.READER, "only the fields that the reader's own contract names")
    PROJECTION_ONLY = ("projection_only", CheckedBy.READER, "only through a projection of the current prefix")
    FIXED_SETUP_NAMED = (
        "fixed_setup_named",
        CheckedBy.READER,
        "only if the reader's own contract names it as fixed setup",
    )
    FILE_NAMED = ("file_named", CheckedBy.READER, "only if the reader's own contract names this file")
    IN_BRANCH = ("in_branch", CheckedBy.READER, "only inside the branch attempt, never for the source run")

    GROUPING_ONLY = ("grouping_only", CheckedBy.PURPOSE, "only to group results and check provenance")
    ACCOUNTING = ("accounting", CheckedBy.PURPOSE, "only for sizes, usage, timing and cost")
    COMPLETION = ("completion", CheckedBy.PURPOSE, "only for run completion status")
    EXPLAIN = ("explain", CheckedBy.PURPOSE, "only to explain a completed run")
    ADVISOR_AUDIT = ("advisor_audit", CheckedBy.PURPOSE, "only to audit the advisor; its cost comes from role metrics")
    DETECTOR_QUALITY = ("detector_quality", CheckedBy.PURPOSE, "only to check detector behaviour after the run")
    CONTROLLER_QUALITY = ("controller_quality", CheckedBy.PURPOSE, "only to check how well the controller worked")
    INTERVENTIONS = ("interventions", CheckedBy.PURPOSE, "only to record when and how interventions were applied")
    FINAL_TREE = ("final_tree", CheckedBy.PURPOSE, "only to check the final worktree state")
    GATE_STATUS = ("gate_status", CheckedBy.PURPOSE, "only for gate status")
    VERIFICATION_STATUS = ("verification_status", CheckedBy.PURPOSE, "only for verification status")
    SCORER_DEBUG = ("scorer_debug", CheckedBy.PURPOSE, "only to debug the scorer")
    BRANCH_SETUP = (
        "branch_setup",
        CheckedBy.PURPOSE,
        "only to rebuild, reproduce or check the set-up of a branch or replay",
    )
    BRANCH_RESULT = ("branch_result", CheckedBy.PURPOSE, "only to group, classify or check branch attempts")
    CONTAMINATION = ("contamination", CheckedBy.PURPOSE, "only to mark a cell contaminated, never for a verdict")
    INTEGRITY = ("integrity", CheckedBy.PURPOSE, "only to check that evidence is whole and unchanged")
    TERMINAL_RESULT = ("terminal_result", CheckedBy.PURPOSE, "only the matching terminal result of a child")
    RESTORE_SETTINGS = (
        "restore_settings",
        CheckedBy.PURPOSE,
        "only to restore or compare the settings of the source run",
    )
    EXPLICIT_REPLAY = ("explicit_replay", CheckedBy.PURPOSE, "only for an explicit rewind, resume or replay")
    MATCHING_EVIDENCE = ("matching_evidence", CheckedBy.PURPOSE, "only with matching consumption and trace evidence")
    ONCE_AT_REQUEST = ("once_at_request", CheckedBy.PURPOSE, "exactly once, at the next model request of a resume")
    LABEL_ANSWER = ("label_answer", CheckedBy.PURPOSE, "only an explicit resume, to label the recorded answer")
    IMAGE_REQUEST = ("image_request", CheckedBy.PURPOSE, "only through the client's image request")
    SUBAGENT_TOOLS = ("subagent_tools", CheckedBy.PURPOSE, "only through subagent_changes and apply_subagent")
    MODEL_FILE_READ = ("model_file_read", CheckedBy.PURPOSE, "only through an ordinary file read of the model")
    SINK_POINTER = (
        "sink_pointer",
        CheckedBy.PURPOSE,
        "only through sink pointers, tails or direct reads that the context mode allows",
    )
    STATE_MODE = ("state_mode", CheckedBy.READER, "only for state-backed modes, through the current turn")
    DETECTOR_RESULT = (
        "detector_result",
        CheckedBy.READER,
        "only the decisions handed to it by the detector's own child process",
    )

    def __init__(self, word: str, checked_by: CheckedBy, meaning: str) -> None:
        self.word = word
        self.checked_by = checked_by
        self.meaning = meaning
