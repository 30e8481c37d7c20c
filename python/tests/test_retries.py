"""P37, P40: what is repeated, with which key, and what is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from berth_client import (
    ApiError,
    AsyncClient,
    Client,
    RateLimitError,
    RequestTimeout,
    ServerError,
    TransportError,
)
from conftest import KEY, Asked, Reply, ScriptedServer

CUT = Reply(cut=True)
SECRET = {"name": "A", "updatedAt": "2026-01-02T03:04:05.678Z", "createdAt": "2026-01-02T03:04:05.678Z"}
KEYS = {"sshKeys": []}


def script(server: ScriptedServer, *replies: Any) -> None:
    rows = list(replies)
    server.handler = lambda _: rows.pop(0) if len(rows) > 1 else rows[0]


def keys_of(server: ScriptedServer) -> set[str | None]:
    return {asked.headers.get("idempotency-key") for asked in server.asked}


@pytest.mark.parametrize("fault", [CUT, Reply({}, 502), Reply({}, 503, {"Retry-After": "0"}), Reply({}, 504)])
def test_p37_a_create_is_repeated_with_the_same_key(client: Client, server: ScriptedServer, fault: Reply) -> None:
    script(server, fault, fault, fault, Reply({"message": "no", "reason": "enough"}, 400))
    with pytest.raises(ApiError) as raised:
        client.ssh_keys.add(name="a", public_key="ssh-ed25519 A")
    assert raised.value.reason == "enough"
    assert len(server.asked) == 4
    assert len(keys_of(server)) == 1
    assert None not in keys_of(server)
    client_keys = keys_of(server)
    with pytest.raises(ApiError):
        client.ssh_keys.add(name="a", public_key="ssh-ed25519 A")
    assert len(keys_of(server) - client_keys) == 1, "each call has a key of its own"


def test_p37_the_caller_can_give_the_key(client: Client, server: ScriptedServer) -> None:
    script(server, CUT, Reply({"message": "no"}, 400))
    with pytest.raises(ApiError):
        client.ssh_keys.add(name="a", public_key="ssh-ed25519 A", idempotency_key="mine")
    assert keys_of(server) == {"mine"}


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.rentals.change(17, label="a"),
        lambda client: client.rentals.stop(17),
        lambda client: client.rentals.terminate(17),
    ],
)
def test_p37_what_could_happen_twice_is_not_repeated(
    client: Client, server: ScriptedServer, call: Callable[[Client], Any]
) -> None:
    script(server, CUT)
    with pytest.raises(TransportError):
        call(client)
    assert len(server.asked) == 1
    assert keys_of(server) == {None}


def test_p37_it_gives_up_after_three_retries(client: Client, server: ScriptedServer) -> None:
    script(server, Reply({"message": "later"}, 503))
    with pytest.raises(ServerError):
        client.ssh_keys.list().first()
    assert len(server.asked) == 4


def test_p37_any_call_waits_for_its_rate_limit(client: Client, server: ScriptedServer) -> None:
    script(server, Reply({}, 429, {"Retry-After": "1"}), Reply({"message": "no"}, 404))
    started = time.monotonic()
    with pytest.raises(ApiError):
        client.rentals.change(17, label="a")
    # A lower bound holds on the busiest machine.
    assert time.monotonic() - started >= 1
    assert len(server.asked) == 2


def test_p40_a_wait_that_is_too_long_is_the_callers(client: Client, server: ScriptedServer) -> None:
    script(server, Reply({"message": "slow down", "reason": "too_many_requests"}, 429, {"Retry-After": "3600"}))
    with pytest.raises(RateLimitError) as raised:
        client.ssh_keys.list().first()
    assert raised.value.retry_after == 3600
    assert len(server.asked) == 1


def test_p40_a_timeout_says_so(server: ScriptedServer) -> None:
    def slow(_: Asked) -> Any:
        time.sleep(2)
        return KEYS

    server.handler = slow
    with Client(url=server.url, key=KEY, timeout=0.2, max_retries=0) as client, pytest.raises(RequestTimeout) as raised:
        client.ssh_keys.list().first()
    assert isinstance(raised.value, TimeoutError)


def test_p37_the_asynchronous_client_does_the_same(server: ScriptedServer, client: Client) -> None:
    script(server, CUT, CUT, KEYS)

    async def main() -> list[Any]:
        async with AsyncClient(url=server.url, key=KEY) as one:
            return await one.ssh_keys.list().to_list()

    assert asyncio.run(main()) == []
    assert len(server.asked) == 3
