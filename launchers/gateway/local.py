"""What the gateway answers itself: model metadata that shows the arm's input limit, as several kinds of server show
it."""

from __future__ import annotations

import json
from typing import Any

from launchers.gateway.refusals import Refusal
from launchers.gateway.routes import Route


def local_answer(found: Route, model: str, input_limit: int | None) -> bytes | Refusal:
    """The body of `/v1/models`, `/props`, `/slots` or a health check."""
    if found.local == "health":
        return b'{"status":"ok"}'
    if found.local == "models":
        return _models(found.model_id, model, input_limit)
    if input_limit is None:
        return Refusal(404, "no_input_limit", f"{found.path}: this arm has no input limit to tell")
    return json.dumps(_props(model, input_limit) if found.local == "props" else _slots(input_limit)).encode()


def _models(asked: str | None, model: str, input_limit: int | None) -> bytes | Refusal:
    if asked is not None and asked != model:
        return Refusal(404, "model_not_found", f"model {asked[:100]!r} is not served here; {model!r} is")
    entry = _model(model, input_limit)
    if asked is not None:
        return json.dumps(entry).encode()
    return json.dumps(
        {"object": "list", "data": [entry], "has_more": False, "first_id": model, "last_id": model}
    ).encode()


def _model(model: str, input_limit: int | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": model,
        "object": "model",
        "type": "model",
        "display_name": model,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "assay",
    }
    if input_limit is not None:
        entry |= {"context_length": input_limit, "max_model_len": input_limit, "max_input_tokens": input_limit}
        entry["meta"] = {"n_ctx": input_limit, "n_ctx_train": input_limit}
    return entry


def _props(model: str, input_limit: int) -> dict[str, Any]:
    return {
        "default_generation_settings": {"n_ctx": input_limit, "params": {}},
        "total_slots": 1,
        "model_alias": model,
        "model_path": model,
        "n_ctx": input_limit,
        "chat_template": "",
        "build_info": "assay",
    }


def _slots(input_limit: int) -> list[dict[str, Any]]:
    return [{"id": 0, "n_ctx": input_limit, "is_processing": False}]
