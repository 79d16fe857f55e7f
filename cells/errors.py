"""The error tree: the caller's bug, the world's fault and a measured result are three different things.

Rules:
1. Every error a person can meet is an `AssayError`; its message says what was asked, what was found, what is allowed or
   to be done.
2. `exit_code` is the exit status of the command line (20-interface: 2 usage, 3 environment, 4 evidence or boundary).
3. `InfraFailure` is a fault of the infrastructure during a cell. It must never be presented as behaviour of the agent,
   nor become a score.
"""

from __future__ import annotations


class AssayError(Exception):
    """Base of all errors that are shown to a person without a traceback."""

    exit_code = 1


class UsageError(AssayError):
    """The command or a file given by the user is wrong."""

    exit_code = 2


class InputFileError(UsageError):
    """A file given by the user is wrong: names file, line and key where they are known."""

    def __init__(self, file: str, message: str, *, line: int | None = None, key: str | None = None) -> None:
        where = file if line is None else f"{file}:{line}"
        super().__init__(f"{where}: {key}: {message}" if key else f"{where}: {message}")
        self.file, self.line, self.key = file, line, key


class EnvironmentFault(AssayError):
    """The machine lacks something that the command needs: engine, image, disk, permission."""

    exit_code = 3


class EvidenceError(AssayError):
    """Saved evidence is incomplete, altered, of another version, or in conflict."""

    exit_code = 4


class ConflictError(EvidenceError):
    """Something else is already published under this identity."""


class BoundaryViolation(EvidenceError):
    """A file was asked for, or written, by somebody who may not, or at a moment when it does not exist yet."""


class InfraFailure(AssayError):
    """The infrastructure failed while a cell was measured; the cell is lost, not scored.

    `reason` is a short stable word (`engine_lost`, `image_build`, `gateway_lost`, `script_exhausted`, ...).
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


class VerifierInvalid(AssayError):
    """The verifier, the engine or the host failed after the run was sealed: verdict `invalid`, verified again,
    never 0.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


class Interrupted(AssayError):
    """The user stopped the study; running the same command again goes on."""

    exit_code = 130
