"""Routes: which path means what, and which pairs are refused before a run."""

from __future__ import annotations

import pytest

from launchers.gateway.routes import PROVIDER_PROTOCOLS, check_route, route


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_paths_with_and_without_the_version(prefix: str) -> None:
    assert route("POST", f"{prefix}/chat/completions").protocol == "openai-chat"
    assert route("POST", f"{prefix}/responses").protocol == "openai-responses"
    assert route("POST", f"{prefix}/messages").protocol == "anthropic-messages"
    assert route("POST", f"{prefix}/messages/count_tokens").side == "anthropic-messages"
    assert route("GET", f"{prefix}/models").local == "models"
    assert route("GET", f"{prefix}/models/a/b").model_id == "a/b"
    assert route("GET", f"{prefix}/props").local == "props"


def test_anything_else_is_nothing() -> None:
    for method, path in [("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("DELETE", "/"), ("POST", "/v1x")]:
        found = route(method, path)
        assert (found.protocol, found.local, found.side) == (None, None, None)


def test_a_pair_of_protocols_that_would_lose_parts_is_refused_at_plan_time() -> None:
    assert check_route(("openai-chat",), "openai") is None
    assert check_route(("anthropic-messages", "openai-chat"), "openai") is None
    assert check_route(("anthropic-messages",), "scripted") is None
    reason = check_route(("anthropic-messages",), "openai")
    assert reason is not None and "would lose parts" in reason
    assert "no protocol" in str(check_route((), "openai"))
    assert "there are anthropic, openai, replay, scripted" in str(check_route(("openai-chat",), "other"))


def test_every_provider_speaks_something() -> None:
    assert all(PROVIDER_PROTOCOLS.values())
