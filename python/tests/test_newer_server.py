"""P41: fields, values and kinds of a newer server are kept and break nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from berth_client import Client, models
from conftest import ScriptedServer
from test_pages import option

EVENT = {
    "id": "18",
    "at": "2026-01-02T03:04:05.678Z",
    "type": "rental.teleported",
    "subject": {"kind": "spaceship", "id": "17", "planet": "Mars"},
    "data": {"a": [1, {"b": "2.5"}]},
    "newField": {"deep": [1]},
}


def test_p41_new_fields_and_values_are_kept(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: {"events": [EVENT], "nextCursor": None, "total": 1}
    (page,) = client.events.list().pages()
    (event,) = page.events
    assert page.model_extra == {"total": 1}
    assert event.type == "rental.teleported"
    assert event.at == datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert event.model_extra == {"newField": {"deep": [1]}}
    assert event.subject.model_extra == {"planet": "Mars"}
    assert event.model_dump(mode="json", by_alias=True, exclude={"at"}) == {
        name: value for name, value in EVENT.items() if name != "at"
    }


def test_p41_a_new_kind_in_a_union_is_an_unknown_object() -> None:
    adapter = pytest.importorskip("pydantic").TypeAdapter(models.OnDemandRental.model_fields["current_term"].annotation)
    facts = {"effectiveAt": "2026-01-02T03:04:05.678Z", "costPerHour": 2.5}
    nothing = ["reservedUntil", "reservationEndsAt", "termPeriodDays", "discountPercentage", "originalCostPerHour"]
    known = adapter.validate_python({**facts, **dict.fromkeys(nothing), "termType": "on-demand"})
    assert known.cost_per_hour == Decimal("2.5")
    assert not isinstance(known, models.UnknownObject)
    unknown = adapter.validate_python({**facts, "termType": "by-the-mile", "miles": 3})
    assert isinstance(unknown, models.UnknownObject)
    assert unknown.model_extra == {**facts, "termType": "by-the-mile", "miles": 3}


def test_p41_new_values_of_arguments_can_be_sent(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: [{**option(5), "region": "moon-1"}]
    (volume,) = client.volumes.list(extra={"orbit": "low"}).to_list()
    assert volume.region == "moon-1"
    assert server.asked[-1].query["orbit"] == "low"


def test_amounts_are_exact_and_numbers_stay_what_they_are(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: [{**option(5), "costPerHour": 0.1, "usedGb": 3}]
    (volume,) = client.volumes.list().to_list()
    assert volume.cost_per_hour == Decimal("0.1")
    assert isinstance(volume.cost_per_hour, Decimal)
    assert repr(volume.used_gb) == "3"


@pytest.mark.parametrize(
    ("wire", "text"),
    [(0, "0.00"), (2.49, "2.49"), (2.5, "2.50"), (2, "2.00"), (1234.567, "1234.567"), (-0.00125, "-0.00125")],
)
def test_amounts_are_shown_as_people_write_them(
    client: Client, server: ScriptedServer, wire: float, text: str
) -> None:
    server.handler = lambda _: [{**option(5), "costPerHour": wire}]
    (volume,) = client.volumes.list().to_list()
    assert str(volume.cost_per_hour) == text
