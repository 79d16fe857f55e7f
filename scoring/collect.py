"""Collection, host side: asks the collector for the tree once, and makes its files durable before anything else
happens.

Rules:
1. Only code that holds a `SealedAttempt` can ask: nothing of the work directory is read before the seal.
2. Bytes and time are capped here as well as there. Nothing is extracted, no name of the cell becomes a path of the
   host.
3. Order: unfiltered patch, tree archive, status, and last `post/collect.json`, which holds the digests of the others:
   it
   stands for a whole collection. A collection that broke off leaves none, and the attempt is lost.
4. A patch over a cap is left empty and said to be incomplete: a cut patch is never written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

import zstandard
from pydantic import ValidationError

from cells.artifacts import Writer
from cells.attempt import SealedAttempt
from cells.errors import InfraFailure
from cells.sandbox import Channel, ChannelClosed, ChannelTimeout, Frame
from scoring.collected import (
    NAME,
    STATUS,
    TREE,
    Collected,
    Facts,
    StreamEnd,
    parse_end,
    parse_facts,
    status_text,
    unfiltered_name,
)

_T = TypeVar("_T")
_FACTS_BYTES = 64 << 20
_COMPRESSION_LEVEL = 3


@dataclass(frozen=True)
class CollectLimits:
    """Caps of a collection: changed files, bytes of new content, of the patch, of the tree archive; seconds in all."""

    changes: int = 5000
    changed_bytes: int = 32 << 20
    patch_bytes: int = 32 << 20
    tree_bytes: int = 512 << 20
    seconds: float = 300.0


def collect(
    sealed: SealedAttempt,
    channel: Channel,
    task: str,
    limits: CollectLimits = CollectLimits(),
    clock: Callable[[], float] = time.monotonic,
) -> Collected:
    """Collect the tree of a sealed attempt. InfraFailure("collector_lost" | "collector_failed" | "bad_frame"): then the
    attempt has no whole collection and cannot be graded."""
    talk = _Talk(channel, clock() + limits.seconds)
    caps = {key: value for key, value in asdict(limits).items() if key != "seconds"}
    talk.send({"type": "collect", "base_tree": sealed.facts["base"]["base_tree"], **caps})
    facts = talk.facts()
    files: dict[str, str] = {}
    patch = talk.stream("patch", limits.patch_bytes)
    name, content = unfiltered_name(task), b"".join(patch.chunks())
    patch_end = _usable_patch(patch.end)
    files[name] = sealed.write(name, content if patch_end.complete else b"", Writer.COLLECTOR)
    tree = talk.stream("tree", limits.tree_bytes)
    files[TREE] = sealed.stream(TREE, _compressed(tree.chunks()), Writer.COLLECTOR)
    talk.expect("collected")
    files[STATUS] = sealed.write(STATUS, status_text(facts), Writer.COLLECTOR)
    collected = Collected(task=task, facts=facts, patch=patch_end, archive=tree.end, files=files)
    sealed.write(NAME, collected.as_bytes(), Writer.COLLECTOR)
    return collected


def _usable_patch(end: StreamEnd) -> StreamEnd:
    if end.complete and end.round_trip is None:
        raise InfraFailure("collector_failed", "a whole patch came without the proof of its round trip")
    return end


def _compressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """One zstd frame with a checksum."""
    parameters = zstandard.ZstdCompressionParameters.from_level(_COMPRESSION_LEVEL, write_checksum=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    for chunk in chunks:
        if piece := compressor.compress(chunk):
            yield piece
    yield compressor.flush()


class _Stream:
    """A long stream of the collector; `end` is known once `chunks` has been read to its end."""

    def __init__(self, talk: _Talk, name: str, cap: int) -> None:
        self._talk, self._name, self._cap = talk, name, cap
        self._end: StreamEnd | None = None

    @property
    def end(self) -> StreamEnd:
        """How it ended, its digest checked."""
        assert self._end is not None
        return self._end

    def chunks(self) -> Iterator[bytes]:
        """The parts, capped and checked against the digest of the `end` frame."""
        state, size = hashlib.sha256(), 0
        while (frame := self._talk.receive()).type == "part" and frame.header.get("stream") == self._name:
            size += len(frame.body)
            if size > self._cap:
                raise InfraFailure("bad_frame", f"stream {self._name} of more than {self._cap} bytes")
            state.update(frame.body)
            yield frame.body
        if frame.type != "end" or frame.header.get("stream") != self._name:
            raise InfraFailure("bad_frame", f"asked for the end of stream {self._name}, found {frame.type!r}")
        self._end = _checked(lambda: parse_end(frame.header))
        if (self._end.bytes, self._end.sha256) != (size, state.hexdigest()):
            raise InfraFailure("bad_frame", f"stream {self._name}: {size} bytes came, not the ones that were sent")


@dataclass(frozen=True)
class _Talk:
    channel: Channel
    deadline: float

    def send(self, header: dict[str, object]) -> None:
        """Send a request."""
        try:
            self.channel.send(header)
        except (ChannelClosed, ChannelTimeout) as error:
            raise InfraFailure("collector_lost", f"it does not take requests: {error}") from error

    def receive(self) -> Frame:
        """The next frame that is no error."""
        try:
            frame = self.channel.receive(self.deadline, _FACTS_BYTES)
        except ChannelClosed as error:
            raise InfraFailure("collector_lost", f"it ended while it was collecting: {error}") from error
        except ChannelTimeout as error:
            raise InfraFailure("collector_lost", f"the time for a collection ended: {error}") from error
        if frame.type == "error":
            raise InfraFailure("collector_failed", str(frame.header.get("detail", ""))[:2000])
        return frame

    def expect(self, kind: str) -> Frame:
        """The next frame, which must be of this type."""
        frame = self.receive()
        if frame.type != kind:
            raise InfraFailure("bad_frame", f"asked for {kind!r}, found {frame.type!r}")
        return frame

    def facts(self) -> Facts:
        """The `facts` frame."""
        frame = self.expect("facts")
        return _checked(lambda: parse_facts(frame.body))

    def stream(self, name: str, cap: int) -> _Stream:
        """The stream that comes next."""
        return _Stream(self, name, cap)


def _checked(parse: Callable[[], _T]) -> _T:
    try:
        return parse()
    except ValidationError as error:
        raise InfraFailure("bad_frame", f"the collector's answer: {error.error_count()} fields are wrong") from error
