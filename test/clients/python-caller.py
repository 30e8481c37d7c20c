"""Calls methods of the client: a line of JSON in is a call, a line out is what came of it."""

import asyncio
import inspect
import json
import os
import sys
from itertools import islice
from typing import Any

from berth_client import ApiError, AsyncClient, BerthError, Client
from berth_client._aio.pages import AsyncPages
from berth_client._sync.pages import Pages

MAX_ROWS = 3


def plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list):
        return [plain(one) for one in value]
    return repr(value) if isinstance(value, bytes) else value


def arguments(order: dict[str, Any]) -> dict[str, Any]:
    fields = order["kwargs"]
    if "file" in fields:
        fields["file"] = (fields["file"][0], bytes.fromhex(fields["file"][1]))
    return fields


def find(client: Any, name: str) -> Any:
    for part in name.split("."):
        client = getattr(client, part)
    return client


def call(clients: dict[str, Client], order: dict[str, Any]) -> Any:
    answer = find(clients[order["as"]], order["call"])(*order["args"], **arguments(order))
    if isinstance(answer, Pages) or inspect.isgenerator(answer):
        answer = list(islice(answer, MAX_ROWS))
    return plain(answer)


async def call_async(clients: dict[str, AsyncClient], order: dict[str, Any]) -> Any:
    answer = find(clients[order["as"]], order["call"])(*order["args"], **arguments(order))
    if isinstance(answer, AsyncPages):
        return plain(await answer.to_list(limit=MAX_ROWS))
    if inspect.isasyncgen(answer):
        return plain([row async for row in answer])
    return plain(await answer)


def outcome(make: Any) -> dict[str, Any]:
    try:
        return {"answer": make()}
    except ApiError as error:
        return {"error": type(error).__name__, "status": error.status, "reason": error.reason, "text": str(error)}
    except (BerthError, TypeError, ValueError, AttributeError) as error:
        return {"error": type(error).__name__, "text": str(error)}


def main() -> None:
    keys = json.loads(os.environ["BERTH_KEYS"])
    url = os.environ["BERTH_URL"]
    clients = {name: Client(url=url, key=key) for name, key in keys.items()}
    loop = asyncio.new_event_loop()
    others = {name: AsyncClient(url=url, key=key) for name, key in keys.items()}
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("async"):
            said = outcome(lambda: loop.run_until_complete(call_async(others, order)))
        else:
            said = outcome(lambda: call(clients, order))
        print(json.dumps(said, default=str), flush=True)


main()
