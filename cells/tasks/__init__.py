"""Tasks: the native task directory and its frozen form."""

from cells.tasks.directory import TaskDirectory, load_task
from cells.tasks.frozen import FrozenTask, LiveTask, PromptImage, freeze, open_frozen
from cells.tasks.task_model import TaskFile, VerifySection

__all__ = [
    "FrozenTask",
    "LiveTask",
    "PromptImage",
    "TaskDirectory",
    "TaskFile",
    "VerifySection",
    "freeze",
    "load_task",
    "open_frozen",
]
