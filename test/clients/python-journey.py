"""P35: what a customer does, from the first key to the last bill, with either client. Prints what it saw as JSON."""

import asyncio
import json
import sys
from decimal import Decimal

from berth_client import AsyncClient, Client, NotFoundError

ORDER = {"kind": "virtual-machine", "region": "mock-region", "gpu_type": "h100", "network_type": "ethernet"}


def journey() -> dict:
    seen = {}
    with Client() as client:
        seen["role"] = client.account.me().role
        option = next(one for one in client.rental_options.list() if one.region == "mock-region")
        assert isinstance(option.cost_per_hour, Decimal)
        rental = client.rentals.create(**ORDER, gpu_count=1, label="from Python", spending_limit_usd=5)
        running = client.rentals.wait_until_running(rental.name, timeout=60)
        seen["state"] = running.state
        assert running.started_at is not None and running.started_at.tzinfo is not None
        assert running.spending_limit_usd == Decimal(5)
        assert client.rentals.change(rental.id, label=None).label is None
        assert rental.id in [one.id for one in client.rentals.list()]
        volume = client.volumes.create(region="mock-region", label="from-python", size_in_gb=256)
        client.volumes.wait_until_active(volume.storage_volume_id, timeout=60)
        client.volumes.terminate(storage_volume_id=volume.storage_volume_id)
        key = client.api_keys.create(name="of the program", scopes=["inference"])
        models = list(Client(key=key.key).models.list())
        seen["models"] = [one.id for one in models]
        chat = client.chat_completions.create(
            model=models[0].id, max_tokens=5, messages=[{"role": "user", "content": "Hello"}]
        )
        (cost,) = client.usage.request_cost(request_ids=[chat.inference_request_id]).requests
        seen["tokens"] = chat.usage.completion_tokens
        seen["chunks"] = sum(
            1
            for _ in client.chat_completions.stream(
                model=models[0].id, max_tokens=5, messages=[{"role": "user", "content": "Hello"}]
            )
        )
        seen["openai"] = [one.id for one in client.openai().models.list()]
        client.api_keys.revoke(key.public_id)
        client.rentals.terminate(rental.id, reason="the journey is over")
        gone = client.rentals.wait_until_terminated(rental.id, timeout=60)
        seen["end"] = gone.state
        assert client.billing.balance().balance_usd < Decimal(100)
        try:
            client.rentals.get("no-such-rental")
        except NotFoundError as error:
            seen["missing"] = error.status
    return seen


async def journey_async() -> dict:
    seen = {}
    async with AsyncClient() as client:
        seen["role"] = (await client.account.me()).role
        options = [one async for one in client.rental_options.list() if one.region == "mock-region"]
        assert isinstance(options[0].cost_per_hour, Decimal)
        rental = await client.rentals.create(**ORDER, gpu_count=1, label="from Python", spending_limit_usd=5)
        running = await client.rentals.wait_until_running(rental.name, timeout=60)
        seen["state"] = running.state
        assert running.started_at is not None and running.started_at.tzinfo is not None
        assert running.spending_limit_usd == Decimal(5)
        assert (await client.rentals.change(rental.id, label=None)).label is None
        assert rental.id in [one.id async for one in client.rentals.list()]
        volume = await client.volumes.create(region="mock-region", label="from-python", size_in_gb=256)
        await client.volumes.wait_until_active(volume.storage_volume_id, timeout=60)
        await client.volumes.terminate(storage_volume_id=volume.storage_volume_id)
        key = await client.api_keys.create(name="of the program", scopes=["inference"])
        async with AsyncClient(key=key.key) as other:
            models = await other.models.list().to_list()
        seen["models"] = [one.id for one in models]
        chat = await client.chat_completions.create(
            model=models[0].id, max_tokens=5, messages=[{"role": "user", "content": "Hello"}]
        )
        (cost,) = (await client.usage.request_cost(request_ids=[chat.inference_request_id])).requests
        seen["tokens"] = chat.usage.completion_tokens
        chunks = client.chat_completions.stream(
            model=models[0].id, max_tokens=5, messages=[{"role": "user", "content": "Hello"}]
        )
        seen["chunks"] = len([one async for one in chunks])
        seen["openai"] = [one.id async for one in client.openai().models.list()]
        await client.api_keys.revoke(key.public_id)
        await client.rentals.terminate(rental.id, reason="the journey is over")
        gone = await client.rentals.wait_until_terminated(rental.id, timeout=60)
        seen["end"] = gone.state
        assert (await client.billing.balance()).balance_usd < Decimal(100)
        try:
            await client.rentals.get("no-such-rental")
        except NotFoundError as error:
            seen["missing"] = error.status
    return seen


print(json.dumps(asyncio.run(journey_async()) if sys.argv[1] == "async" else journey()))
