"""The program of the detector child: rows in on stdin, judgements out on stdout, nothing else.

First line in: `{v, detectors: {name: {action, settings}}}`; out: `{v, ready: [names]}`. Then, for each question of the
controller: in `{v, turn, detector, rows: [projected fields, only those that are new], reply?}`, out `{v, turn,
detector, decision, evidence: [{turn, field}], facts, ask?: {messages}}` or `{v, turn, detector, error}`. It ends when
stdin does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import IO, Any

from cells.detection.judgement import Detector, Hit, Question
from cells.detection.registry import make

VERSION = 1


def answer(detector: Detector, action: str, rows: list[dict[str, Any]], message: Mapping[str, Any]) -> dict[str, Any]:
    """The decision for one message: `action` or "none"; `rows` are all rows that the detector has got so far."""
    turn = int(message["turn"])
    reply = message.get("reply")
    judged = detector.judge(rows, turn) if reply is None else detector.judge_reply(rows, turn, str(reply))
    head = {"v": VERSION, "turn": turn, "detector": detector.name}
    if isinstance(judged, Question):
        return {**head, "decision": "none", "evidence": [], "facts": {}, "ask": {"messages": list(judged.messages)}}
    if isinstance(judged, Hit):
        evidence = [{"turn": one.turn, "field": one.field} for one in judged.evidence]
        return {**head, "decision": action, "evidence": evidence, "facts": dict(judged.facts)}
    return {**head, "decision": "none", "evidence": [], "facts": {}}


def serve(source: IO[str], sink: IO[str]) -> None:
    """Answer every line until the source ends."""
    arm = json.loads(source.readline())["detectors"]
    detectors = {name: make(name, given["settings"]) for name, given in arm.items()}
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in detectors}
    _say(sink, {"v": VERSION, "ready": sorted(detectors)})
    for line in source:
        message = json.loads(line)
        name = message["detector"]
        seen[name].extend(message.get("rows", ()))
        _say(sink, answer(detectors[name], arm[name]["action"], seen[name], message))


def _say(sink: IO[str], document: Mapping[str, Any]) -> None:
    sink.write(json.dumps(document, separators=(",", ":")) + "\n")
    sink.flush()


def main() -> None:
    """Serve on the standard streams."""
    serve(sys.stdin, sys.stdout)
