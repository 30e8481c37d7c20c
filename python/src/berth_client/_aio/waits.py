"""
Waits until something has reached a state. Events say when to look again. What cannot reach the state any more raises the
server's reason; at the timeout the error says what goes on to cost money.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from .._errors import WaitFailed, WaitTimeout
from .._generated import operations
from .._operation import Operation
from .follow import STREAM, follow_events, newest_event, subject_of
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .._generated import models

T = TypeVar("T")

POLL_SECONDS = 2.0

Judge = Callable[[T], bool]
"""Whether it has reached the state. Raises `WaitFailed` if it never will."""
Cost = Callable[[T], tuple[str, Decimal | None]]
"""What it costs as it is, in words and per hour."""


async def wait(
    transport: AsyncTransport,
    operation: Operation[T],
    id: int | str,
    kind: str,
    is_done: Judge[T],
    cost_of: Cost[T],
    timeout: float,
) -> T:
    deadline = time.monotonic() + timeout
    # Before the first look: what happens between the two is an event after this one.
    last = await newest_event(transport, operations.LIST_EVENTS)
    value = await transport.call(operation, path={"id": id})
    if is_done(value):
        return value
    subject = f"{kind}:{getattr(value, 'id')}"
    async for event in follow_events(transport, STREAM, operations.LIST_EVENTS, "Event", last, deadline):
        # None is a sign of life of the server: some changes have no event.
        if event is not None and subject_of(event) != subject:
            continue
        value = await transport.call(operation, path={"id": id})
        if is_done(value):
            return value
    raise timed_out(kind, value, cost_of, timeout)


async def find(
    transport: AsyncTransport,
    read: Callable[[], Any],
    kind: str,
    is_done: Judge[Any],
    cost_of: Cost[Any],
    timeout: float,
) -> Any:
    """The same for things whose events do not say enough: looks again every two seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = await read()
        if is_done(value):
            return value
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise timed_out(kind, value, cost_of, timeout)
        await transport.pause(min(POLL_SECONDS, remaining))


def timed_out(kind: str, value: Any, cost_of: Cost[Any], timeout: float) -> WaitTimeout:
    words, per_hour = cost_of(value)
    return WaitTimeout(f"{name_of(kind, value)} is {state_of(value)} after {timeout:g} s. {words}", value, per_hour)


def name_of(kind: str, value: Any) -> str:
    return f"{kind} {getattr(value, 'name', None) or value.id}"


def state_of(value: Any) -> str:
    return str(getattr(value, "state", None) or value.status)


def dollars(amount: Decimal) -> str:
    """Two decimals, or as many as it has."""
    text = f"{amount.normalize():f}"
    return f"${text}" if len(text.partition(".")[2]) > 2 else f"${amount:.2f}"


def failed(kind: str, value: Any, reason: str | None, message: str | None) -> WaitFailed:
    because = ": ".join(part for part in (reason, message) if part)
    return WaitFailed(f"{name_of(kind, value)} is {state_of(value)}{f' ({because})' if because else ''}", value, reason)


def cost_of_rental(rental: models.Rental) -> tuple[str, Decimal]:
    now, running = rental.current_cost_per_hour_usd, rental.price_per_hour_usd
    words = f"It costs {dollars(now)} per hour now"
    if now < running:
        words += f", and {dollars(running)} per hour once it runs"
    return f"{words}, until rentals.terminate({rental.name!r}); so far {dollars(rental.cost_so_far_usd)}.", now


class RentalWaits:
    """Waiting for states of a rental."""

    _transport: AsyncTransport

    async def wait_until_running(self, id: int | str, timeout: float = 900) -> models.Rental:
        """Returns the rental once it runs.

        :raises WaitFailed: It failed, was stopped or was terminated; `reason` has the server's reason.
        :raises WaitTimeout: It goes on to start, and may cost money; the message says how much.
        """

        def is_running(rental: models.Rental) -> bool:
            ended = rental.state in ("Failed", "Terminating", "Terminated")
            if ended or (rental.state == "Stopped" and rental.start_requested_at is None):
                raise failed("rental", rental, rental.status_reason, rental.status_message)
            return rental.state == "Running"

        return await wait(
            self._transport, operations.GET_RENTAL, id, "rental", is_running, cost_of_rental, timeout
        )

    async def wait_until_stopped(self, id: int | str, timeout: float = 900) -> models.Rental:
        """Returns the rental once it is stopped; see `stop`."""

        def is_stopped(rental: models.Rental) -> bool:
            if rental.state in ("Failed", "Terminating", "Terminated"):
                raise failed("rental", rental, rental.status_reason, rental.status_message)
            return rental.state == "Stopped"

        return await wait(
            self._transport, operations.GET_RENTAL, id, "rental", is_stopped, cost_of_rental, timeout
        )

    async def wait_until_terminated(self, id: int | str, timeout: float = 900) -> models.Rental:
        """Returns the rental once its machine is gone. Billing stops earlier, with `terminate`."""

        def is_gone(rental: models.Rental) -> bool:
            return rental.state == "Terminated"

        return await wait(self._transport, operations.GET_RENTAL, id, "rental", is_gone, cost_of_rental, timeout)


def per_hour(amount: Decimal) -> tuple[str, Decimal]:
    return f"It costs {dollars(amount)} per hour now.", amount


class GroupWaits:
    """Waiting for states of a group."""

    _transport: AsyncTransport

    async def wait_until_running(self, id: int | str, timeout: float = 1_800) -> models.Group:
        """Returns the group once all of its nodes run."""

        def is_running(group: models.Group) -> bool:
            if group.state in ("ending", "ended"):
                raise failed("group", group, group.state_reason, None)
            return group.state == "running"

        def cost(group: models.Group) -> tuple[str, Decimal]:
            return per_hour(group.cost_per_hour_usd)

        return await wait(self._transport, operations.GET_GROUP, id, "group", is_running, cost, timeout)


class VolumeWaits:
    """Waiting for states of a volume."""

    _transport: AsyncTransport

    async def wait_until_active(self, id: int, timeout: float = 600) -> models.StorageVolume:
        """Returns the volume once it can be used."""

        async def read() -> models.StorageVolume:
            # There is no operation for one volume. IDs fall, so that this finds it at once.
            page = await self._transport.call(operations.LIST_VOLUMES, query={"before": id + 1, "limit": 1})
            if page and page[0].id == id:
                return page[0]
            raise WaitFailed(f"volume {id} does not exist any more", None, None)

        def is_active(volume: models.StorageVolume) -> bool:
            if volume.terminated_at is not None or volume.deleted_at is not None:
                raise failed("volume", volume, volume.meta.termination_reason, None)
            return volume.status == "active"

        def cost(volume: models.StorageVolume) -> tuple[str, Decimal]:
            return per_hour(volume.cost_per_hour)

        volume: models.StorageVolume = await find(self._transport, read, "volume", is_active, cost, timeout)
        return volume


class JobWaits:
    """Waiting for the end of a job."""

    _transport: AsyncTransport

    async def wait_until_done(self, id: str, timeout: float = 86_400) -> models.Job:
        """Returns the job once it has succeeded.

        :raises WaitFailed: It failed, was cancelled or reached its time limit.
        """

        def is_done(job: models.Job) -> bool:
            if job.state in ("Failed", "Cancelled", "TimedOut"):
                raise failed("job", job, job.task.reason if job.task else None, None)
            return job.state == "Succeeded"

        def cost(job: models.Job) -> tuple[str, None]:
            return f"It has cost {dollars(job.cost_usd)}, and goes on until it ends or jobs.cancel({job.id!r}).", None

        return await wait(self._transport, operations.GET_JOB, id, "job", is_done, cost, timeout)


class DeploymentWaits:
    """Waiting for states of a deployment."""

    _transport: AsyncTransport

    async def wait_until_ready(self, id: str, timeout: float = 1_800) -> models.ManagedDeployment:
        """Returns the deployment once a replica of it answers."""

        def is_ready(deployment: models.ManagedDeployment) -> bool:
            if deployment.status in ("failed", "deleting"):
                raise failed("deployment", deployment, deployment.scaling_reason, deployment.message)
            return deployment.status == "ready"

        def cost(deployment: models.ManagedDeployment) -> tuple[str, Decimal]:
            return per_hour(deployment.cost_per_hour_usd)

        return await wait(
            self._transport, operations.GET_MANAGED_DEPLOYMENT, id, "deployment", is_ready, cost, timeout
        )


class BatchWaits:
    """Waiting for the end of a batch."""

    _transport: AsyncTransport

    async def wait_until_done(self, id: str, timeout: float = 86_400) -> models.Batch:
        """Returns the batch once it is completed."""

        async def read() -> models.Batch:
            return await self._transport.call(operations.GET_BATCH, path={"id": id})

        def is_done(batch: models.Batch) -> bool:
            if batch.status in ("failed", "expired", "cancelled"):
                errors = batch.errors.data if batch.errors else []
                raise failed("batch", batch, errors[0].code if errors else None, errors[0].message if errors else None)
            return batch.status == "completed"

        def cost(batch: models.Batch) -> tuple[str, None]:
            return f"It has cost {dollars(batch.cost_usd)}, and goes on.", None

        done: models.Batch = await find(self._transport, read, "batch", is_done, cost, timeout)
        return done
