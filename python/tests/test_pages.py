"""P39: lists of any length, in the three styles of the API, with one page in memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from berth_client import AsyncClient, BerthError, Client
from conftest import KEY, Asked, Reply, ScriptedServer

AT = "2026-01-02T03:04:05.678Z"


def event(number: int) -> dict[str, Any]:
    subject = {"kind": "rental", "id": "17"}
    return {"id": str(number), "at": AT, "type": "rental.running", "subject": subject, "data": {"text": "x" * 500}}


def file(number: int) -> dict[str, Any]:
    facts = {"object": "file", "bytes": 1, "created_at": 1, "expires_at": 2, "purpose": "batch", "status": "processed"}
    return {"id": f"file_{number}", "filename": "x" * 500, **facts}



def cursor_page(asked: Asked, total: int) -> Any:
    start, size = int(asked.query.get("cursor", 0)), int(asked.query.get("limit", 100))
    end = min(total, start + size)
    return {"events": [event(one) for one in range(start, end)], "nextCursor": str(end) if end < total else None}


def after_page(asked: Asked, total: int) -> Any:
    start = int(asked.query.get("after", "file_-1").split("_")[1]) + 1
    rows = [file(one) for one in range(start, min(total, start + int(asked.query.get("limit", 100))))]
    last = rows[-1]["id"] if rows else None
    more = start + len(rows) < total
    return {"object": "list", "data": rows, "first_id": rows[0]["id"] if rows else None, "last_id": last, "has_more": more}


def before_page(asked: Asked, total: int) -> Any:
    start = int(asked.query.get("before", total + 1))
    return [option(one) for one in range(start - 1, max(0, start - 1 - int(asked.query["limit"])), -1)]


def option(number: int) -> dict[str, Any]:
    supports = {"kinds": [], "attach": [], "shared": True, "grow": True, "clone": True}
    nothing = dict.fromkeys(
        ["updatedAt", "deletedAt", "orgId", "startedAt", "terminatedAt", "usedGb", "growingToGb", "nodeName"]
    )
    facts = {"userId": "u", "externalId": "e", "sizeGb": 256, "costPerHour": 0.25, "region": "mock-region"}
    others = {"storageVolumeId": 1, "meta": {}, "status": "active", "attachedRentals": [], "sizeInGb": 256, "vip": ""}
    last = {"mounts": [], "providerId": "mock", "supports": supports, "label": "x" * 500, "createdAt": AT}
    return {"id": number, **nothing, **facts, **others, **last}


styles: dict[str, tuple[Callable[[Asked, int], Any], Callable[[Any, int | None], Any]]] = {
    "cursor": (cursor_page, lambda client, size: client.events.list(page_size=size)),
    "after": (after_page, lambda client, size: client.files.list(page_size=size)),
    "before": (before_page, lambda client, size: client.volumes.list(page_size=size)),
}


@pytest.mark.parametrize("style", styles)
@pytest.mark.parametrize("total", [0, 1, 10, 25, 30])
def test_p39_every_row_once(client: Client, server: ScriptedServer, style: str, total: int) -> None:
    page, rows = styles[style]
    server.handler = lambda asked: page(asked, total)
    ids = [row.id for row in rows(client, 10)]
    assert len(ids) == len(set(ids)) == total
    assert [row.id for row in rows(client, 7)] == ids
    assert [row.id for row in rows(client, None)] == ids


@pytest.mark.parametrize("style", styles)
def test_p39_the_asynchronous_client_reads_the_same(server: ScriptedServer, style: str) -> None:
    page, rows = styles[style]
    server.handler = lambda asked: page(asked, 25)

    async def main() -> tuple[int, int, Any]:
        async with AsyncClient(url=server.url, key=KEY) as client:
            counted = len([row async for row in rows(client, 10)])
            return counted, len(await rows(client, 10).to_list(limit=3)), await rows(client, 10).first()

    counted, three, first = asyncio.run(main())
    assert (counted, three) == (25, 3)
    assert first.id is not None


@pytest.mark.parametrize("style", styles)
def test_p39_memory_does_not_grow_with_the_list(client: Client, server: ScriptedServer, style: str) -> None:
    page, rows = styles[style]
    size = 200

    def peak(total: int) -> int:
        server.handler = lambda asked: page(asked, total)
        server.asked.clear()
        tracemalloc.start()
        count = 0
        for _ in rows(client, size):
            count += 1
            server.asked.clear()
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == total
        return highest

    # The first read compiles the types of the rows.
    peak(size)
    assert peak(30 * size) < 2 * peak(3 * size)


def test_p39_reading_stops_where_the_caller_stops(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda asked: cursor_page(asked, 1_000_000)
    assert len(list(islice(client.events.list(page_size=10), 25))) == 25
    assert len(server.asked) == 3
    first = client.events.list().first()
    assert first is not None
    assert first.id == "0"
    assert len(client.events.list().to_list(limit=5)) == 5


def test_p39_pages_have_what_is_beside_the_rows(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: {"notifications": [], "unread": 3, "nextCursor": None}
    assert [page.unread for page in client.notifications.list().pages()] == [3]


def test_p39_a_server_that_repeats_a_page_is_no_endless_loop(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: {"events": [event(1)], "nextCursor": "again"}
    with pytest.raises(BerthError, match="same page"):
        client.events.list().to_list()
    server.handler = lambda _: Reply({"events": [], "nextCursor": None})
    assert client.events.list().to_list() == []
