"""Requests to one server: they are repeated where that is safe, and every failure is an error of this package."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import IO, Any, TypeVar

import httpx2

from .._encode import encode_body, encode_form, encode_query, fill_path
from .._errors import ApiError, BerthError, RequestTimeout, TransportError, api_error
from .._generated.version import VERSION
from .._operation import Operation
from .._sse import Message, MessageReader

T = TypeVar("T")
Part = Mapping[str, Any]

FIRST_DELAY_SECONDS = 0.25
MAX_DELAY_SECONDS = 8.0
MAX_RETRY_AFTER_SECONDS = 60.0
# Answers of models take longer than others.
MODEL_TIMEOUT_SECONDS = 600.0
CONNECT_SECONDS = 10.0
# The request was not sent, so that any may be repeated.
UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class Bearer(httpx2.Auth):
    """Adds the key to requests, and shows it nowhere."""

    def __init__(self, key: str | None) -> None:
        self.key = key or None

    def auth_flow(self, request: httpx2.Request) -> Any:
        if self.key is not None:
            request.headers["Authorization"] = f"Bearer {self.key}"
        yield request

    def __repr__(self) -> str:
        return "Bearer(…)"


class AsyncTransport:
    """What the resources of a client share."""

    url: str

    def __init__(
        self, url: str, auth: Bearer, timeout: float, max_retries: int, http: httpx2.AsyncClient | None
    ) -> None:
        self.url = url
        self._auth = auth
        self._timeout = timeout
        self._max_retries = max_retries
        self._is_own = http is None
        self._http = http or httpx2.AsyncClient()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self.url}>"

    async def close(self) -> None:
        # A client that the caller brought may have other users.
        if self._is_own:
            await self._http.aclose()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(
        self,
        operation: Operation[T],
        *,
        path: Part | None = None,
        query: Part | None = None,
        body: Part | None = None,
        extra: Part | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> T:
        """Calls an operation and reads its answer."""
        key = (idempotency_key or uuid.uuid4().hex) if operation.idempotent else None
        request = self._request(operation, path, query, body, extra, key)
        if timeout is None and (operation.chunk is not None or operation.accept == "audio/mpeg"):
            timeout = MODEL_TIMEOUT_SECONDS
        is_repeatable = operation.method in ("GET", "PUT") or key is not None
        response = await self._send(request, is_repeatable, self._timeout if timeout is None else timeout)
        if operation.kind == "text":
            return response.text  # type: ignore[return-value]
        if operation.kind == "bytes":
            return response.content  # type: ignore[return-value]
        from .._decode import decode

        answer: T = decode(operation.answer, response.content, response.headers.get("x-inference-request-id"))
        return answer

    async def request(self, method: str, path: str, query: Part | None, body: Any, key: str | None) -> Any:
        """Calls an operation that this version does not know."""
        headers = {} if key is None else {"Idempotency-Key": key}
        request: dict[str, Any] = {"method": method.upper(), "url": self.url + path, "headers": headers}
        if query:
            request["params"] = dict(query)
        if body is not None:
            request["json"] = body
        is_repeatable = method.upper() in ("GET", "PUT") or key is not None
        response = await self._send(request, is_repeatable, self._timeout)
        return response.json() if response.headers.get("content-type", "").startswith("application/json") else response.text

    async def lines(self, operation: Operation[Any], **parts: Any) -> AsyncIterator[str]:
        """The lines of a text as they arrive."""
        async with self.open(operation, **parts) as response:
            with contained(self.url):
                async for line in response.aiter_lines():
                    yield line

    async def pieces(self, operation: Operation[Any], **parts: Any) -> AsyncIterator[bytes]:
        """The bytes of a file as they arrive."""
        async with self.open(operation, **parts) as response:
            with contained(self.url):
                async for piece in response.aiter_bytes():
                    yield piece

    async def events(self, operation: Operation[Any], **parts: Any) -> AsyncIterator[Any]:
        """The events of an answer that is streamed as it is made."""
        from .._decode import decode

        parts["extra"] = {**(parts.get("extra") or {}), "stream": True}
        async with self.open(operation, **parts) as response:
            async for message in self.messages(response):
                if message is None:
                    continue
                if message.data == "[DONE]":
                    return
                if message.event == "error" or message.data.startswith('{"error"'):
                    raise api_error(response.status_code, response.headers, message.data)
                yield decode(str(operation.chunk), message.data)

    async def messages(self, response: httpx2.Response) -> AsyncIterator[Message | None]:
        """The messages of an event stream; None for a line that completes none, such as a sign of life."""
        reader = MessageReader()
        with contained(self.url):
            async for line in response.aiter_lines():
                yield reader.push(line)

    @asynccontextmanager
    async def open(
        self,
        operation: Operation[Any],
        *,
        path: Part | None = None,
        query: Part | None = None,
        body: Part | None = None,
        extra: Part | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[httpx2.Response]:
        """The answer while it arrives. `timeout`: seconds without data."""
        del idempotency_key
        request = self._request(operation, path, query, body, extra, None)
        limits = httpx2.Timeout(MODEL_TIMEOUT_SECONDS if timeout is None else timeout, connect=CONNECT_SECONDS)
        sent, opened = _with_form(request)
        try:
            with contained(self.url):
                stream = self._http.build_request(**sent, timeout=limits)
                response = await self._http.send(stream, stream=True, auth=self._auth, follow_redirects=False)
            try:
                if not response.is_success:
                    with contained(self.url):
                        content = await response.aread()
                    raise api_error(response.status_code, response.headers, content)
                yield response
            finally:
                await response.aclose()
        finally:
            _close(opened)

    def _request(
        self,
        operation: Operation[Any],
        path: Part | None,
        query: Part | None,
        body: Part | None,
        extra: Part | None,
        key: str | None,
    ) -> dict[str, Any]:
        in_query = operation.method in ("GET", "DELETE")
        params = encode_query(operation, query, extra if in_query else None)
        content = None if in_query and body is None else encode_body(operation, body, None if in_query else extra)
        headers = {"Accept": operation.accept, "User-Agent": f"berth-client/{VERSION}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        request: dict[str, Any] = {
            "method": operation.method,
            "url": self.url + fill_path(operation, path),
            "headers": headers,
        }
        if params:
            request["params"] = params
        if content is not None:
            request["form" if operation.form else "json"] = content
        return request

    async def _send(self, request: dict[str, Any], is_repeatable: bool, timeout: float) -> httpx2.Response:
        limits = httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS))
        attempt = 0
        while True:
            failure: BerthError
            sent, opened = _with_form(request)
            try:
                response = await self._http.request(**sent, auth=self._auth, timeout=limits, follow_redirects=False)
                if response.is_success:
                    return response
                failure = api_error(response.status_code, response.headers, response.content)
                may_repeat = failure.status == 429 or (is_repeatable and failure.status in (502, 503, 504))
            except httpx2.HTTPError as error:
                failure = transport_error(self.url, error)
                failure.__cause__ = error
                may_repeat = is_repeatable or isinstance(error, UNSENT)
            finally:
                _close(opened)
            delay = self._delay(attempt, failure)
            if not may_repeat or attempt >= self._max_retries or delay is None:
                raise failure
            attempt += 1
            await self.pause(delay)

    def _delay(self, attempt: int, failure: BerthError) -> float | None:
        """Seconds before the next attempt; None: the server asks for more than it is worth to wait."""
        asked = failure.retry_after if isinstance(failure, ApiError) else None
        if asked is not None and asked > MAX_RETRY_AFTER_SECONDS:
            return None
        longest: float = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2**attempt)
        # Clients that failed together come back at different times.
        return (asked or 0.0) + longest * random.uniform(0.5, 1.0)


def _with_form(request: dict[str, Any]) -> tuple[dict[str, Any], list[IO[bytes]]]:
    """A form is made for each attempt, because sending it reads its file."""
    if "form" not in request:
        return request, []
    fields, files, opened = encode_form(request["form"])
    for _, content in files.values():
        if not isinstance(content, bytes) and content not in opened:
            content.seek(0)
    others = {name: value for name, value in request.items() if name != "form"}
    return {**others, "data": fields, "files": files}, opened


def _close(files: list[IO[bytes]]) -> None:
    for file in files:
        file.close()


class contained:
    """Failures of the connection within the block become errors of this package."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx2.HTTPError):
            raise transport_error(self._url, error) from error


def transport_error(url: str, error: httpx2.HTTPError) -> TransportError:
    if isinstance(error, httpx2.TimeoutException):
        return RequestTimeout(f"{url} did not answer in time")
    return TransportError(f"Cannot reach {url}: {str(error) or type(error).__name__}")
