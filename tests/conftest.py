"""Which tests run: long campaigns only when asked, and those that need an engine last.

A test that is left out is deselected and counted as such by pytest; it is never a skip that looks like a pass.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two choices that `./infra/test` makes."""
    parser.addoption("--full", action="store_true", help="with the long campaigns (marker `full`)")
    parser.addoption("--without-engine", action="store_true", help="without the tests that need an engine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for; keep the order within each half."""
    left_out = [item for item in items if _left_out(config, item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    kept = [item for item in items if item not in left_out]
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("engine") is not None)


def _left_out(config: pytest.Config, item: pytest.Item) -> bool:
    if item.get_closest_marker("full") and not config.getoption("--full"):
        return True
    return bool(item.get_closest_marker("engine") and config.getoption("--without-engine"))
