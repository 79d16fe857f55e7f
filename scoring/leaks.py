"""The leak scan of a cell: what it read of sealed things before it wrote them itself; leaks.json.

Rules (25-formats, "Leak scan"):
1. Read is what a request tells the model that the model did not say: tool results, command output, file content.
   Written is
   what the model said: text and arguments of its calls. A thing that was written first is no leak: a right answer is
   none.
2. A git command that showed a commit which is neither the base's nor one of the agent's own; an attempt to reach a
   network.
3. Oracle cells are exempt. A hit marks the cell contaminated and changes no verdict.

Source: live/transcript.log, which holds what was new in each request and each reply, in their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cells.artifacts import Role
from cells.attempt import SealedAttempt
from cells.errors import EvidenceError
from scoring.leak_index import LeakIndex
from scoring.records import CellRecord

LEAKS_VERSION = 1
NAME = "post/leaks.json"
_TRANSCRIPT = "live/transcript.log"
_HEADER = re.compile(r"=== exchange (?P<exchange>\d+) (?P<lane>\S+) (?P<kind>input|output) ")
_MAX_HITS = 200
_EVIDENCE = 300
_COMMAND_KEYS = ("command", "cmd", "commands", "script", "code")
_HOST = r"(?!127\.|localhost|\[?::1|0\.0\.0\.0)"
_GIT = r"\bgit(?:\s+-[cC]\s+\S+|\s+--?\w[\w-]*(?:=\S+)?)*\s+"
_INSTALLERS = r"pip3?|uv|conda|poetry|npm|yarn|pnpm|gem|cargo|apt|apt-get|apk|dnf|yum|go"
_NETWORK = re.compile(
    rf"\b(?:curl|wget|aria2c)\b[^\n|;&]*\bhttps?://{_HOST}"
    rf"|\b(?:curl|wget)\s+(?:-\S+\s+)*{_HOST}[\w-]+\.[\w.-]+"
    rf"|{_GIT}(?:clone|fetch|pull|ls-remote|push)\b"
    rf"|\b(?:{_INSTALLERS})\s+(?:-\S+\s+)*(?:install|add|get|download|update|ci)\b"
    rf"|(?:^|[;&|(]\s*)(?:ssh|scp|sftp|telnet|ftp|nc|ncat|nslookup|dig|ping)\s+(?:-\S+\s+)*{_HOST}[\w.@-]+"
    rf"|\burlopen\(\s*[\"']https?://{_HOST}|\brequests\.(?:get|post)\(\s*[\"']https?://{_HOST}",
    re.MULTILINE,
)
_OFFLINE = re.compile(r"--no-index|--dry-run|--offline|\s-e\s+\.|\s\.(?:\[[\w,]+\])?(?:\s|$)")
_HEREDOC = re.compile(
    r"^(?P<head>.*)<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote).*\n(?:.*\n)*?\s*(?P=end)\s*$", re.MULTILINE
)
_INTERPRETER = re.compile(r"\b(?:python[\d.]*|bash|sh|zsh|perl|ruby|node)\b")
_GIT_READ = re.compile(_GIT + r"(?:log|show|reflog|fsck|cat-file|rev-list|for-each-ref|branch|tag|describe|stash)\b")
_GIT_WRITE = re.compile(_GIT + r"(?:commit|merge|stash|cherry-pick|revert|rebase|am|tag|init|notes)\b")
_COMMIT = re.compile(
    r"(?m)^(?:\s*commit\s+|\s*(?:unreachable|dangling) commit\s+|[*|\\/ ]*)((?=[0-9a-f]*[a-f])[0-9a-f]{7,40})\b"
)


@dataclass
class Scan:
    """A scan in progress: `written` is everything that the model said so far."""

    index: LeakIndex
    head_commit: str
    written: list[str] = field(default_factory=list)
    hits: list[dict[str, Any]] = field(default_factory=list)
    results: int = 0
    characters: int = 0
    _commands: str = ""
    _made_commits: bool = False
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def read(self, exchange: int, text: str) -> None:
        """Something that the cell read."""
        self.results += 1
        self.characters += len(text)
        for kind, what, path in self.index.find(text):
            if not any(what in said for said in self.written):
                self._hit(kind, exchange, what, path)
        if not self._made_commits and _GIT_READ.search(self._commands):
            for commit in _COMMIT.findall(text):
                if not self.head_commit.startswith(commit):
                    self._hit("newer_commit", exchange, commit, None)

    def wrote(self, exchange: int, texts: list[str], commands: list[str]) -> None:
        """Something that the model said, and the commands among it."""
        self.written += texts
        self._commands = "\n".join(commands)
        self._made_commits = self._made_commits or bool(_GIT_WRITE.search(self._commands))
        for line in network_attempts(commands):
            self._hit("network_attempt", exchange, line, None)

    def _hit(self, kind: str, exchange: int, what: str, path: str | None) -> None:
        if (kind, what) not in self._seen and len(self.hits) < _MAX_HITS:
            self._seen.add((kind, what))
            self.hits.append({"kind": kind, "exchange": exchange, "evidence": what[:_EVIDENCE], "sealed_in": path})


def leaks_document(sealed: SealedAttempt, cell: CellRecord, index: LeakIndex | None) -> dict[str, Any]:
    """leaks.json of an attempt. `index` is None for cells that are exempt."""
    if index is None or cell.control == "oracle":
        return _document(None, "oracle")
    scan = Scan(index, str(sealed.facts["base"]["head_commit"]))
    for exchange, kind, documents in blocks(sealed.read(_TRANSCRIPT, Role.AUDIT)):
        if kind == "input":
            for document in documents:
                for text in texts_of(document):
                    scan.read(exchange, text)
        else:
            said = [text for document in documents for text in texts_of(document)]
            scan.wrote(exchange, said, [command for document in documents for command in commands_of(document)])
    return _document(scan, None)


def network_attempts(commands: list[str]) -> Iterator[str]:
    """The lines of commands that would reach another machine; text that is only written to a file is no command."""
    for command in commands:
        shown = _HEREDOC.sub(lambda found: found[0] if _INTERPRETER.search(found["head"]) else found["head"], command)
        for match in _NETWORK.finditer(shown):
            line = shown[shown.rfind("\n", 0, match.start()) + 1 :].split("\n", 1)[0]
            if not _OFFLINE.search(line):
                yield line


def blocks(transcript: bytes) -> Iterator[tuple[int, str, list[Any]]]:
    """(exchange, `input` or `output`, JSON documents) of each block of a transcript."""
    current: tuple[int, str, list[Any]] | None = None
    for line in transcript.decode("utf-8", "replace").split("\n"):
        if header := _HEADER.match(line):
            if current is not None:
                yield current
            current = (int(header["exchange"]), header["kind"], [])
        elif line and current is not None:
            try:
                current[2].append(json.loads(line))
            except ValueError as error:
                raise EvidenceError(f"{_TRANSCRIPT}: a line of exchange {current[0]} is not JSON ({error})") from error
    if current is not None:
        yield current


def texts_of(document: Any) -> Iterator[str]:
    """Every text in a JSON document; a text that is JSON itself (the arguments of a call) is opened, too."""
    if isinstance(document, str):
        yield document
        if document[:1] in ("{", "["):
            try:
                yield from texts_of(json.loads(document))
            except (ValueError, RecursionError):
                return
    elif isinstance(document, dict):
        for value in document.values():
            yield from texts_of(value)
    elif isinstance(document, list):
        for value in document:
            yield from texts_of(value)


def commands_of(document: Any) -> Iterator[str]:
    """The commands in a reply: arguments called `command` and the like, and fenced blocks of shell in its text."""
    for call in document.get("calls") or () if isinstance(document, dict) else ():
        try:
            arguments = json.loads(call.get("arguments") or "")
        except ValueError:
            continue
        if isinstance(arguments, dict):
            for key in _COMMAND_KEYS:
                yield from texts_of(arguments.get(key))
    if isinstance(document, dict) and isinstance(text := document.get("text"), str):
        yield from re.findall(r"```(?:bash|sh|shell|console)?\n(.*?)```", text, re.DOTALL)


def _document(scan: Scan | None, exempt: str | None) -> dict[str, Any]:
    hits = scan.hits if scan else []
    return {
        "v": LEAKS_VERSION,
        "exempt": exempt,
        "scanned": {"texts": scan.results, "characters": scan.characters} if scan else None,
        "hits": hits,
        "contaminated": bool(hits),
    }
