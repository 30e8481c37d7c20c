"""P38: follows events over restarts, and waits. Prints a line of JSON for each thing that happened."""

import json
import sys

from berth_client import Client, WaitFailed, WaitTimeout


def say(**facts: object) -> None:
    print(json.dumps(facts, default=str), flush=True)


def follow(last: str) -> None:
    with Client() as client:
        say(ready=True)
        for event in client.events.follow(after="0"):
            say(id=event.id, type=event.type)
            if event.data.get("name") == last:
                return


def wait(name: str, timeout: str) -> None:
    with Client() as client:
        try:
            say(state=client.rentals.wait_until_running(name, timeout=float(timeout)).state)
        except WaitFailed as error:
            say(error="WaitFailed", reason=error.reason, state=error.value.state, text=str(error))
        except WaitTimeout as error:
            say(error="WaitTimeout", cost=error.cost_per_hour_usd, state=error.value.state, text=str(error))


{"follow": follow, "wait": wait}[sys.argv[1]](*sys.argv[2:])
