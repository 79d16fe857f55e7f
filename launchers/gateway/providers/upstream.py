"""Providers over HTTP: any OpenAI or Anthropic endpoint by base URL, bytes passed on as they are, the key added here.

Rules:
1. Only headers of the allow list go out, and the key; only headers of the other list come back. No cookie, no redirect,
   no decompression.
2. A key never stands in a fault's text or in a record, and a reply that holds it is not handed on.
3. Time-outs: to connect 10 s; from the request to the first byte and between two bytes `timeout_s` of the model
   section.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from yarl import URL

from cells.errors import UsageError
from cells.recording.wire import Protocol
from launchers.gateway.providers.base import Call, ProviderFault, ProviderSetting, Reply
from launchers.gateway.routes import PROVIDER_PROTOCOLS

REQUEST_HEADERS = ("content-type", "accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta")
REPLY_HEADERS = ("content-type", "retry-after", "request-id", "x-request-id", "openai-version", "openai-processing-ms")
_CONNECT_S = 10.0
_ANTHROPIC = "https://api.anthropic.com"
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True)
class Upstream:
    """An endpoint over HTTP for one cell."""

    base_url: str
    key: str | None
    key_header: str
    protocols: frozenset[Protocol]
    timeout_s: float
    max_body: int
    client: aiohttp.ClientSession
    endpoint: str
    remote: bool = True

    @asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Reply]:
        """Post the call's bytes and give the reply."""
        query = f"?{call.query}" if call.query else ""
        url = URL(f"{self.base_url}{call.path}{query}", encoded=True)
        with self._faults():
            response = await self.client.post(url, data=call.body, headers=self._headers(call), **self._options())
        try:
            with self._faults():
                reply = await self._reply(response)
            yield reply
        finally:
            response.close()

    async def probe(self) -> Mapping[str, Any]:
        """`GET /models` of the endpoint: status and a capped text, or the kind of fault."""
        headers = {**self._key_header(), "accept": "application/json", "accept-encoding": "identity"}
        url = URL(f"{self.base_url}/models", encoded=True)
        try:
            async with self.client.get(url, headers=headers, **self._options()) as response:
                text = (await response.content.read(65536)).decode(errors="replace")
                return {"base_url": shown_url(self.base_url), "status": response.status, "models": self._safe(text)}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return {"base_url": shown_url(self.base_url), "status": None, "error": self._fault(error).kind}

    def _options(self) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_S, connect=_CONNECT_S, sock_read=self.timeout_s
        )
        return {"allow_redirects": False, "timeout": timeout}

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {name: call.headers[name] for name in REQUEST_HEADERS if name in call.headers}
        if self.key_header == "x-api-key":
            headers.setdefault("anthropic-version", _ANTHROPIC_VERSION)
        return {**headers, "accept-encoding": "identity", **self._key_header()}

    def _key_header(self) -> dict[str, str]:
        if self.key is None:
            return {}
        value = f"Bearer {self.key}" if self.key_header == "authorization" else self.key
        return {self.key_header: value}

    async def _reply(self, response: aiohttp.ClientResponse) -> Reply:
        headers = {name: response.headers[name] for name in REPLY_HEADERS if name in response.headers}
        if 300 <= response.status < 400:
            host = urlsplit(response.headers.get("location", "")).hostname
            raise ProviderFault("redirect", f"status {response.status} to {host}; redirects are not followed")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise ProviderFault("encoding", "the reply is compressed although it was asked not to be")
        if response.status == 200 and headers.get("content-type", "").lower().startswith("text/event-stream"):
            return Reply(200, headers, stream=self._stream(response))
        whole = await self._whole(response)
        return Reply(response.status, headers, whole=whole, retry_after_s=retry_after(headers.get("retry-after")))

    async def _whole(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self.max_body:
                raise ProviderFault("reply_too_large", f"more than {self.max_body} bytes")
        if self._holds_key(bytes(body)):
            raise ProviderFault("secret_in_reply", "the reply holds the key that was sent with the request")
        return bytes(body)

    async def _stream(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        size, tail = 0, b""
        while True:
            with self._faults():
                chunk = await response.content.readany()
            if not chunk:
                return
            size += len(chunk)
            if size > self.max_body:
                raise ProviderFault("reply_too_large", f"more than {self.max_body} bytes")
            if self._holds_key(tail + chunk):
                raise ProviderFault("secret_in_reply", "the reply holds the key that was sent with the request")
            tail = (tail + chunk)[-len(self.key or "") :]
            yield chunk

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise self._fault(error) from None

    def _holds_key(self, content: bytes) -> bool:
        return self.key is not None and len(self.key) >= 8 and self.key.encode() in content

    def _safe(self, text: str) -> str:
        return text.replace(self.key, "[removed]") if self.key else text

    def _fault(self, error: Exception) -> ProviderFault:
        where = shown_url(self.base_url)
        if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
            return ProviderFault("unreachable", f"{where}: {type(error).__name__}", retry=True, failure="endpoint_down")
        if isinstance(error, TimeoutError):
            return ProviderFault("timeout", f"{where}: nothing for {self.timeout_s:g} s", retry=True)
        if isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
            return ProviderFault("broken_off", f"{where}: {type(error).__name__}", retry=True)
        return ProviderFault("bad_reply", f"{where}: {type(error).__name__}", retry=True)


def open_openai(setting: ProviderSetting) -> Upstream:
    """The provider `openai`: chat completions and responses below the base URL."""
    base = str(setting.model["base_url"]).rstrip("/")
    return _upstream(setting, base, "openai", "authorization")


def open_anthropic(setting: ProviderSetting) -> Upstream:
    """The provider `anthropic`: messages below the base URL, `/v1` added when it lacks it."""
    base = str(setting.model.get("base_url") or _ANTHROPIC).rstrip("/")
    return _upstream(setting, base if base.endswith("/v1") else f"{base}/v1", "anthropic", "x-api-key")


def _upstream(setting: ProviderSetting, base_url: str, provider: str, key_header: str) -> Upstream:
    name = setting.model.get("api_key_env")
    if name is not None and name not in setting.keys:
        raise UsageError(f"model {setting.model.get('name')!r}: the key {name} is not in the gateway's environment")
    return Upstream(
        base_url=base_url,
        key=None if name is None else setting.keys[name],
        key_header=key_header,
        protocols=PROVIDER_PROTOCOLS[provider],
        timeout_s=float(setting.model.get("timeout_s") or 600.0),
        max_body=setting.max_body,
        client=setting.client,
        endpoint=f"{provider} {shown_url(base_url)} {name or 'no key'}",
    )


def shown_url(url: str) -> str:
    """A URL without user, password, query and fragment: for texts and records."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    place = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, f"{place}:{parts.port}" if parts.port else place, parts.path, "", ""))


def retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks to wait (a number or a date, RFC 9110 10.2.3); None when it says nothing
    usable."""
    if value is None:
        return None
    try:
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        moment = None
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds()) if moment.tzinfo else None
