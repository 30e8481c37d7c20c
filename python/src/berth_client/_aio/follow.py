"""
Follows events without gaps: a stream that ends, is silent or is cut is opened again after the last event, so that readers
do not notice a restart of the server.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Any

from .._errors import ApiError, TransportError
from .._generated import operations
from .._operation import Operation
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .._generated import models

# The server sends a sign of life every 15 seconds; three missing ones mean that the connection is lost.
SILENCE_SECONDS = 45.0
# Failures in a row before giving up: about two minutes, enough for a restart.
MAX_FAILURES = 30
FIRST_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 5.0
# A stream that lasted for so long counts as a success, even without events.
LASTED_SECONDS = 15.0

STREAM: Operation[str] = Operation("GET", "/v2/events/stream", "str", kind="text", accept="text/event-stream")
STREAM_OF_ALL: Operation[str] = Operation(
    "GET", "/v2/operator/events/stream", "str", kind="text", accept="text/event-stream"
)


class EventFollow:
    """Following events of the account."""

    _transport: AsyncTransport

    async def follow(
        self,
        *,
        after: str | None = None,
        types: Collection[str] | None = None,
        subject: str | None = None,
    ) -> AsyncIterator[models.Event]:
        """Yields events as they happen, each once and in order, also over restarts of the server.

        :param after: ID of the last event that the caller has. Default: only new events. "0": from the first one on.
        :param types: Only events of these types, such as "rental.running".
        :param subject: Only events of one thing: "rental:17".
        """
        async for event in follow_events(self._transport, STREAM, operations.LIST_EVENTS, "Event", after):
            if event is not None and is_wanted(event, types, subject):
                yield event


class AccountEventFollow:
    """Following events of all accounts."""

    _transport: AsyncTransport

    async def follow(
        self,
        *,
        after: str | None = None,
        types: Collection[str] | None = None,
        subject: str | None = None,
    ) -> AsyncIterator[models.AccountEvent]:
        """Yields the events of every account as they happen; see `events.follow`."""
        listed = operations.LIST_ALL_EVENTS
        async for event in follow_events(self._transport, STREAM_OF_ALL, listed, "AccountEvent", after):
            if event is not None and is_wanted(event, types, subject):
                yield event


def is_wanted(event: Any, types: Collection[str] | None, subject: str | None) -> bool:
    return (types is None or event.type in types) and (subject is None or subject_of(event) == subject)


def subject_of(event: Any) -> str:
    return f"{event.subject.kind}:{event.subject.id}"


async def newest_event(transport: AsyncTransport, listed: Operation[Any]) -> str:
    page = await transport.call(listed, query={"limit": 1})
    return str(page.events[0].id) if page.events else "0"


async def follow_events(
    transport: AsyncTransport,
    stream: Operation[str],
    listed: Operation[Any],
    type_name: str,
    after: str | None,
    deadline: float | None = None,
) -> AsyncIterator[Any]:
    """Events, and None at least every 15 seconds. Ends at the deadline, a time of `time.monotonic()`."""
    from .._decode import decode

    last = after
    failures = 0
    # A server that was never reached is a wrong address rather than a restart, so that it fails at once.
    was_reached = False
    while True:
        started = time.monotonic()
        problem: ApiError | TransportError | None = None
        try:
            if last is None:
                last = await newest_event(transport, listed)
            silence = within(deadline)
            if silence <= 0:
                return
            async with transport.open(stream, extra={"after": last}, timeout=silence) as response:
                async for message in transport.messages(response):
                    was_reached = True
                    if message is None or message.id is None:
                        yield None
                    else:
                        last = message.id
                        failures = 0
                        yield decode(type_name, message.data)
                    # The next silence has to end with the deadline.
                    if within(deadline) < silence:
                        break
        except (ApiError, TransportError) as error:
            if deadline is not None and time.monotonic() >= deadline:
                return
            if not was_reached or not is_transient(error):
                raise
            problem = error
        if deadline is not None and deadline - time.monotonic() < SILENCE_SECONDS and problem is None:
            continue
        failures = 1 if time.monotonic() - started > LASTED_SECONDS else failures + 1
        if failures >= MAX_FAILURES:
            raise problem or TransportError("The event stream keeps ending at once")
        asked = problem.retry_after if isinstance(problem, ApiError) else None
        delay = max(asked or 0.0, min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** (failures - 1)))
        await transport.pause(delay if deadline is None else max(0.0, min(delay, deadline - time.monotonic())))


def within(deadline: float | None) -> float:
    return SILENCE_SECONDS if deadline is None else min(SILENCE_SECONDS, deadline - time.monotonic())


def is_transient(error: ApiError | TransportError) -> bool:
    return isinstance(error, TransportError) or error.status in (429, 502, 503, 504)
