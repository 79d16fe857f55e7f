"""Files that the text of the saved-files contract names outside its tables, most of them files of coding sessions."""

from __future__ import annotations

from cells.artifacts.build_rows import EVENT, LIVE, START, START_TO_POST, Form, cell, seed, session
from cells.artifacts.conditions import Condition as C
from cells.artifacts.model import YES, Readiness, Row, Scope, may, when

_S = "<session_dir>"
_INPUTS = (
    ("path_attachments.json", "assistant path-input writer", "no absolute source path, no file content"),
    ("path_attachments/files/file-NNNN.txt", "assistant path-input writer", "text after injection scan and redaction"),
    (
        "github_context.json",
        "assistant GitHub-input writer",
        "fixed read-only boundary; resume verifies it without a request",
    ),
    ("review_target.json", "assistant review writer", "identity and read-only contract; no diff content"),
    ("review_target.patch", "assistant review writer", "admitted diff, 512 KiB at most"),
    ("provider.toml", "assistant", "overrides given on the command; absent when there is none"),
)
_EVENTS = (
    ("approval_request.json", "assistant approvals", "before the tool runs", "never enters measurement mode"),
    ("approval_decisions.json", "assistant approvals", "after a decision with --always", ""),
    ("shell_interrupt.json", "assistant", "after a user interrupt", "resume clears it when the new segment starts"),
    (
        "rewind_snapshots/rewind_pending.json",
        "assistant",
        "after a rewind in the shell",
        "identities and turns, not a second trace",
    ),
)

TEXT: tuple[Row, ...] = (
    *seed(
        None,
        "model client transcript writer",
        LIVE,
        may(replay=YES),
        cell("<run_dir>/transcripts/<task>.pre_seg_N.log"),
        cell("<run_dir>/harness_run/transcripts/<task>.pre_seg_N.log"),
        note="earlier segments, read in number order",
    ),
    *seed(
        None,
        "assistant",
        START_TO_POST,
        may(replay=when(C.RESTORE_SETTINGS)),
        session(f"{_S}/session.json"),
        assistant_only=True,
        ready_note="the sandbox record is added after startup",
        note="never a credential value or id",
    ),
    *(
        row
        for name, writer, note in _INPUTS
        for row in seed(None, writer, START, may(), session(f"{_S}/{name}"), assistant_only=True, note=note)
    ),
    *(
        row
        for name, writer, moment, note in _EVENTS
        for row in seed(
            None, writer, EVENT, may(), session(f"{_S}/{name}"), assistant_only=True, ready_note=moment, note=note
        )
    ),
    *seed(
        None,
        "assistant index",
        (Readiness.EVENT,),
        may(),
        session("<assist_home>/sessions.sqlite3"),
        assistant_only=True,
        ready_note="changes with every session command",
        note="labels, archive and purge state never enter model input, replay or measurement",
    ),
    *seed(
        None,
        "assistant purge",
        EVENT,
        may(),
        session("<assist_home>/purge-staging/<session_id>/**"),
        assistant_only=True,
        ready_note="after an interrupted confirmed purge",
    ),
    *seed(
        None,
        "harness rewind",
        LIVE,
        may(replay=when(C.EXPLICIT_REPLAY)),
        session(f"{_S}/rewind_snapshots/*.json.gz"),
        cell("<task telemetry sibling>/rewind_snapshots/*.json.gz"),
        note="normal context and live detectors do not read it",
    ),
    *seed(
        None,
        "harness checkpoints",
        LIVE,
        may(replay=when(C.EXPLICIT_REPLAY)),
        session(f"{_S}/.shadow_git/**"),
        cell("<task telemetry sibling>/.shadow_git/**"),
        note="outside the model's task view",
    ),
    *seed(
        None,
        "LLM hurdle detector",
        LIVE,
        may(controller=when(C.DETECTOR_RESULT), scoring=when(C.DETECTOR_QUALITY)),
        session(f"{_S}/llm_hurdle_detector.jsonl"),
        ready_note="append-only when enabled",
        note="session form of row 29",
    ),
    *seed(
        None,
        "adaptive-control ledger writer",
        LIVE,
        may(scoring=when(C.INTERVENTIONS)),
        session(f"{_S}/adaptive_control_ledger.jsonl"),
        ready_note="append-only when enabled",
        note="session form of row 30",
    ),
    *seed(
        None,
        "support command",
        EVENT,
        may(),
        Form(Scope.HOST, "<host>/support/<report>"),
        ready_note="when a person asks for it",
        note="an environment report at a path that the person chooses; no session, no target content",
    ),
)
