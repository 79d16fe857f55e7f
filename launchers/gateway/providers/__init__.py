"""Providers: who answers for a model, one module each, opened by name; further parts add theirs to `FACTORIES`."""

from __future__ import annotations

from importlib import import_module

from launchers.gateway.providers.base import Provider, ProviderSetting, UnknownProvider

FACTORIES: dict[str, str] = {
    "openai": "launchers.gateway.providers.upstream:open_openai",
    "anthropic": "launchers.gateway.providers.upstream:open_anthropic",
    "scripted": "launchers.gateway.providers.scripted:open_scripted",
    "replay": "launchers.replay.provider:open_replay",
}
"""Name of a provider -> `module:function`; the function takes a `ProviderSetting`. Imported when a cell asks for it."""


def open_provider(setting: ProviderSetting) -> Provider:
    """The provider of a cell. `UnknownProvider` names what there is; a provider's own `UsageError` passes through."""
    name = str(setting.model.get("provider"))
    place = FACTORIES.get(name)
    if place is None:
        raise UnknownProvider(f"provider {name!r} is not known; there are {', '.join(sorted(FACTORIES))}")
    module, _, function = place.partition(":")
    try:
        factory = getattr(import_module(module), function)
    except ImportError as error:
        raise UnknownProvider(f"provider {name!r} cannot be opened: {error}") from error
    provider: Provider = factory(setting)
    return provider
