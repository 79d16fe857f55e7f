"""The flow of a study, as Prefect sees it."""

from __future__ import annotations

import inspect


def test_what_is_sent_to_the_server_does_not_grow_with_the_study() -> None:
    """A plan of 1,000 cells as a flow parameter was over the server's cap of 512 KiB: the run could not start."""
    from flows.measure import _measure

    assert list(inspect.signature(_measure.fn).parameters) == ["token"]
