"""The client: a connection to one server with one key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import httpx2

from .resources import Resources
from .transport import AsyncTransport, Bearer

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_URL = "http://127.0.0.1:8420"
TIMEOUT_SECONDS = 30.0
MAX_RETRIES = 3


class AsyncClient(Resources):
    """A client of a Berth server.

    Keep one for the whole program: it keeps its connections. It can be used with `async with`, which closes them.

    :param url: Of the server. Default: the environment variable `BERTH_URL`, else http://127.0.0.1:8420.
    :param key: An API key. Default: `BERTH_KEY`. Without one, only public operations work.
    :param timeout: Seconds that a request may take, for each attempt.
    :param max_retries: How often reads and creates are repeated after failures of the connection or the server.
    :param http_client: For proxies and certificates; the caller closes it.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = MAX_RETRIES,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        address = checked_url(url or os.environ.get("BERTH_URL") or DEFAULT_URL)
        secret = key if key is not None else os.environ.get("BERTH_KEY")
        if secret and not re.fullmatch(r"[\x21-\x7e]+", secret):
            # The text of the key must not be in the error, so the HTTP library never sees such a key.
            raise ValueError("The key has characters that no key has, such as a space or a line break")
        self._auth = Bearer(secret)
        super().__init__(AsyncTransport(address, self._auth, timeout, max_retries, http_client))

    @property
    def url(self) -> str:
        """Of the server."""
        return self._transport.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._transport.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Calls an operation that this version of the package does not have, with names as on the wire."""
        return await self._transport.request(method, path, query, json, idempotency_key)

    def openai(self, **options: Any) -> AsyncOpenAI:
        """A client of the `openai` package for the models of this server, with the same key.

        Needs `pip install "berth-client[openai]"`. The options are those of the OpenAI client.
        """
        try:
            import openai
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                'The openai package is not installed: pip install "berth-client[openai]"', name=error.name
            ) from None
        return openai.AsyncOpenAI(**{"base_url": f"{self.url}/v1", "api_key": self._auth.key or "none", **options})


def checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("The URL must begin with http:// or https://, and name a host")
    if parts.username or parts.password:
        raise ValueError("The URL must not have a password; give the key as key=…")
    return url.rstrip("/")
