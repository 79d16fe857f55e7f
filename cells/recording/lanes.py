"""Lanes: which exchanges belong together, which lane is main, and which exchange is which turn.

Rules (25-formats, "Words of order"):
1. A lane is opened by a model, a system prompt and a set of tools. An exchange belongs to the lane whose call it
   answers; else to the lane of
   its model, prompt and tools; else to the lane that it visibly continues (so a changed tool set or model stays in its
   lane); else it opens one.
2. `main` is the lane of the first exchange that carries tools, or of the first exchange at all. The second is decided
   when its lane asks again
   after a completed exchange, or when the record ends: before that a first exchange without tools may be a side call (a
   title, a probe).
3. A turn is one completed exchange of main, numbered from 0 in the order of completion.
4. Everything here is a function of the rows so far: the same rows give the same lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cells.recording.views import ReplyView, RequestView

_MAX_LANES = 512
"""Further lanes share the last one: a cell that varies its prompts for ever does not make us grow."""
_MAX_PENDING = 4096


@dataclass
class Lane:
    """One lane and what the next request is compared with."""

    id: str
    requests: int = 0
    completed: int = 0
    pending: frozenset[str] = frozenset()
    """Ids of calls that replies of the lane made and no request has answered yet."""
    model: str | None = None
    tools: tuple[str, ...] = ()
    items: int = 0
    last_item: str = ""
    replied: bool = False
    input_known: int | None = None
    """Tokens that a continuing request certainly has: input and visible output of the newest exchange, as its provider
    counted."""


@dataclass(frozen=True)
class Place:
    """Where a request belongs: its lane, its ordinal in it, what changed, and whether it visibly continues the lane."""

    lane: Lane
    ordinal: int
    opened: bool
    continues: bool
    before_model: str | None
    before_tools: tuple[str, ...]
    before_items: int
    known_tokens: int | None


@dataclass
class LaneBook:
    """All lanes of a session."""

    lanes: list[Lane] = field(default_factory=list)
    main: Lane | None = None
    _keys: dict[tuple[str | None, str, str], Lane] = field(default_factory=dict)

    def place(self, view: RequestView) -> Place:
        """Put a request into its lane."""
        lane = self._find(view)
        opened = lane is None
        lane = lane or self._open()
        continues = not opened and _continues(lane, view)
        place = Place(
            lane,
            lane.requests,
            opened,
            continues,
            lane.model,
            lane.tools,
            lane.items,
            lane.input_known if continues else None,
        )
        self._keys.setdefault(_key(view), lane)
        self._decide(lane, view)
        _note_request(lane, view)
        return place

    def complete(self, lane: Lane, ordinal: int, reply: ReplyView) -> int:
        """Note a completed exchange; its 0-based number in its lane, which is the turn when the lane is main."""
        number = lane.completed
        lane.completed += 1
        lane.pending = (
            (lane.pending | {call.id for call in reply.calls if call.id is not None}) if reply.calls else lane.pending
        )
        if len(lane.pending) > _MAX_PENDING:
            lane.pending = frozenset()
        if ordinal == lane.requests - 1:
            lane.replied, lane.input_known = True, _tokens_so_far(reply)
        return number

    def end(self) -> Lane | None:
        """The record ends: the first lane is main when no other one is."""
        if self.main is None and self.lanes:
            self.main = self.lanes[0]
        return self.main

    def may_be_main(self, lane: Lane) -> bool:
        """Whether the lane is main, or the first one while nothing is decided."""
        return lane is (self.main or self.lanes[0])

    @property
    def turns(self) -> int:
        """Completed exchanges of main, of the first lane while nothing is decided."""
        lane = self.main or (self.lanes[0] if self.lanes else None)
        return lane.completed if lane else 0

    def _find(self, view: RequestView) -> Lane | None:
        by_key = self._keys.get(_key(view))
        answered = {result.call_id for result in view.results if result.call_id is not None}
        callers = [lane for lane in self.lanes if answered & lane.pending] if answered else []
        if callers:
            return by_key if by_key in callers else callers[0]
        if by_key is not None:
            return by_key
        return next((lane for lane in self.lanes if _continues(lane, view)), None)

    def _open(self) -> Lane:
        if len(self.lanes) >= _MAX_LANES:
            return self.lanes[-1]
        lane = Lane(id=f"lane-{len(self.lanes) + 1}")
        self.lanes.append(lane)
        return lane

    def _decide(self, lane: Lane, view: RequestView) -> None:
        if self.main is None and (view.carries_tools or (lane is self.lanes[0] and lane.completed > 0)):
            self.main = lane


def _key(view: RequestView) -> tuple[str | None, str, str]:
    return view.model, view.system_digest, view.tools_digest


def _tokens_so_far(reply: ReplyView) -> int | None:
    usage = reply.usage
    if usage is None or usage.input is None:
        return None
    return usage.input + max(0, (usage.output or 0) - (usage.reasoning or 0))


def _continues(lane: Lane, view: RequestView) -> bool:
    """The newest item of the lane's newest request stands where it stood, and a model's item follows it."""
    if not lane.replied or not 0 < lane.items < view.fresh:
        return False
    return view.item_digest(lane.items - 1) == lane.last_item


def _note_request(lane: Lane, view: RequestView) -> None:
    lane.requests += 1
    lane.pending -= {result.call_id for result in view.results if result.call_id is not None}
    lane.replied, lane.input_known = False, None
    lane.model, lane.tools = view.model, view.tools
    lane.items = len(view.items)
    lane.last_item = view.item_digest(len(view.items) - 1) if view.items else ""
