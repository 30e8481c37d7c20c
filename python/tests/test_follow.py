"""P38: events once and in order over lost connections, and what waiting says at its end."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from itertools import islice
from typing import Any

import pytest

from berth_client import AsyncClient, Client, NotFoundError, TransportError, WaitFailed, WaitTimeout
from conftest import KEY, Asked, Reply, ScriptedServer
from test_pages import event

STREAM = {"Content-Type": "text/event-stream"}


def messages(*numbers: int) -> bytes:
    return b"".join(f"id: {one}\nevent: rental.running\ndata: {json.dumps(event(one))}\n\n".encode() for one in numbers)


def broken_stream(asked: Asked) -> Any:
    """Every stream has two more events, and half of a third."""
    if asked.path == "/v2/events":
        return {"events": [event(4)], "nextCursor": None}
    after = int(asked.query["after"])
    return Reply(b": hello\n\n" + messages(after + 1, after + 2) + messages(after + 3)[:40], 200, STREAM)


def test_p38_each_event_once_over_broken_streams(client: Client, server: ScriptedServer) -> None:
    server.handler = broken_stream
    ids = [one.id for one in islice(client.events.follow(after="0"), 7)]
    assert ids == ["1", "2", "3", "4", "5", "6", "7"]
    assert [asked.query["after"] for asked in server.asked] == ["0", "2", "4", "6"]


def test_p38_without_a_position_only_new_events(client: Client, server: ScriptedServer) -> None:
    server.handler = broken_stream
    assert [one.id for one in islice(client.events.follow(), 2)] == ["5", "6"]


def test_p38_events_can_be_chosen(client: Client, server: ScriptedServer) -> None:
    def mixed(_: Asked) -> Any:
        rows = [event(1), {**event(2), "type": "rental.failed"}, {**event(3), "subject": {"kind": "job", "id": "a"}}]
        return Reply(b"".join(f"id: {one['id']}\ndata: {json.dumps(one)}\n\n".encode() for one in rows), 200, STREAM)

    server.handler = mixed
    failed = client.events.follow(after="0", types=["rental.failed"])
    assert next(failed).id == "2"
    assert next(client.events.follow(after="0", subject="job:a")).id == "3"


def test_p38_the_asynchronous_client_follows(server: ScriptedServer) -> None:
    server.handler = broken_stream

    async def main() -> list[str]:
        ids: list[str] = []
        async with AsyncClient(url=server.url, key=KEY) as client:
            async for one in client.events.follow(after="0"):
                ids.append(one.id)
                if len(ids) == 5:
                    break
        return ids

    assert asyncio.run(main()) == ["1", "2", "3", "4", "5"]


def test_p38_a_server_that_was_never_there_is_an_error_at_once() -> None:
    with Client(url="http://127.0.0.1:9", key=KEY, max_retries=0) as client, pytest.raises(TransportError):
        next(client.events.follow(after="0"))


GROUP = {
    "id": "grp_1",
    "name": "train",
    "label": None,
    "stateReason": None,
    "failedRank": None,
    "stateSince": "2026-01-02T03:04:05.678Z",
    "onNodeLoss": "end",
    "restarts": 0,
    "gpusPerNode": 8,
    "gpuModel": "H100",
    "clusterName": "a",
    "region": "b",
    "costPerHourUsd": "31.500000000",
    "nodes": [],
    "createdAt": "2026-01-02T03:04:05.678Z",
    "startedAt": None,
    "endedAt": None,
}


def group_server(states: list[str]) -> Any:
    """Its group is in the next state at each look; an event of it follows each."""

    def answer(asked: Asked) -> Any:
        if asked.path == "/v2/events":
            return {"events": [], "nextCursor": None}
        if asked.path == "/v2/events/stream":
            number = int(asked.query["after"]) + 1
            row = {**event(number), "subject": {"kind": "group", "id": "grp_1"}}
            return Reply(f"id: {number}\ndata: {json.dumps(row)}\n\n".encode(), 200, STREAM)
        state = states.pop(0) if len(states) > 1 else states[0]
        return {**GROUP, "state": state, "stateReason": "machine_lost" if state == "ended" else None}

    return answer


def test_p38_waiting_returns_with_the_state(client: Client, server: ScriptedServer) -> None:
    server.handler = group_server(["starting", "starting", "running"])
    assert client.groups.wait_until_running("train", timeout=60).state == "running"


def test_p38_waiting_fails_with_the_reason_of_the_server(client: Client, server: ScriptedServer) -> None:
    server.handler = group_server(["starting", "ended"])
    with pytest.raises(WaitFailed) as raised:
        client.groups.wait_until_running("train", timeout=60)
    assert raised.value.reason == "machine_lost"
    assert raised.value.value.state == "ended"


def test_p38_a_timeout_says_what_still_costs(client: Client, server: ScriptedServer) -> None:
    server.handler = group_server(["starting"])
    with pytest.raises(WaitTimeout) as raised:
        client.groups.wait_until_running("train", timeout=0.3)
    error = raised.value
    assert isinstance(error, TimeoutError)
    assert error.cost_per_hour_usd == Decimal("31.5")
    assert "$31.50 per hour" in str(error)
    assert error.value.state == "starting"


def test_p38_waiting_for_nothing_is_an_error_at_once(client: Client, server: ScriptedServer) -> None:
    missing = Reply({"message": "no such group", "code": "NOT_FOUND"}, 404)
    running = group_server(["starting"])
    server.handler = lambda asked: missing if asked.path.startswith("/v2/groups/") else running(asked)
    with pytest.raises(NotFoundError):
        client.groups.wait_until_running("train", timeout=60)
