"""What is sent: names, amounts, times, and what is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from berth_client import OMIT, Client, NotFoundError
from conftest import Asked, Reply, ScriptedServer

REFUSED = Reply({"message": "Not here", "code": "NOT_FOUND"}, 404)


def sent(server: ScriptedServer, call: Any) -> Asked:
    server.handler = lambda _: REFUSED
    with pytest.raises(NotFoundError):
        call()
    return server.asked[-1]


def test_names_amounts_and_times_have_the_form_of_the_wire(client: Client, server: ScriptedServer) -> None:
    asked = sent(
        server,
        lambda: client.rentals.create(
            kind="container",
            gpu_model="h100",
            gpu_count=1,
            volumes=[{"volume_id": 5, "path": "/data"}],
            env={"a_b": "c_d"},
            spending_limit_usd=Decimal("5.10"),
            max_cost_per_hour_usd=2.5,
            auto_terminate_at=datetime(2026, 1, 2, 5, tzinfo=timezone(timedelta(hours=2))),
        ),
    )
    assert asked.method == "POST"
    assert asked.path == "/v2/rentals"
    assert asked.headers["authorization"].startswith("Bearer ")
    assert asked.body == {
        "kind": "container",
        "gpuModel": "h100",
        "gpuCount": 1,
        "volumes": [{"volumeId": 5, "path": "/data"}],
        # Names of variables are the caller's.
        "env": {"a_b": "c_d"},
        "spendingLimitUsd": "5.10",
        "maxCostPerHourUsd": "2.5",
        "autoTerminateAt": "2026-01-02T03:00:00.000Z",
    }


def test_none_removes_a_value_and_omit_leaves_it(client: Client, server: ScriptedServer) -> None:
    asked = sent(server, lambda: client.rentals.change(17, label=None, stop_at=OMIT))
    assert asked.path == "/v2/rentals/17"
    assert asked.body == {"label": None}


def test_a_time_without_a_zone_is_refused_before_it_is_sent(client: Client, server: ScriptedServer) -> None:
    with pytest.raises(ValueError, match="stop_at has no time zone"):
        client.rentals.change(17, stop_at=datetime(2026, 1, 2))
    assert server.asked == []


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_an_id_that_leads_to_another_operation_is_refused(client: Client, server: ScriptedServer, id: str) -> None:
    with pytest.raises(ValueError, match="cannot be the id"):
        client.rentals.terminate(id)
    assert server.asked == []


def test_ids_are_escaped_but_for_models_with_slashes(client: Client, server: ScriptedServer) -> None:
    assert sent(server, lambda: client.rentals.get("a/b?c")).path == "/v2/rentals/a%2Fb%3Fc"
    assert sent(server, lambda: client.models.get("owner/name")).path == "/v1/models/owner/name"


def test_queries_are_text(client: Client, server: ScriptedServer) -> None:
    asked = sent(server, lambda: client.usage.costs(from_="2026-01-01", to="2026-01-31", group_by="resource"))
    assert asked.query == {"from": "2026-01-01", "to": "2026-01-31", "groupBy": "resource"}
    since = datetime(2026, 1, 2, tzinfo=UTC)
    asked = sent(server, lambda: client.rentals.logs("a", tail=5, since=since))
    assert asked.query == {"tail": "5", "since": "2026-01-02T00:00:00.000Z"}


@pytest.mark.parametrize("kind", ["path", "bytes", "open", "pair"])
def test_a_file_is_sent_as_a_form(client: Client, server: ScriptedServer, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b'{"a": 1}\n')
    with path.open("rb") as opened:
        files: dict[str, Any] = {"path": path, "bytes": path.read_bytes(), "open": opened, "pair": ("q", b'{"a": 1}\n')}
        expiry: Any = {"anchor": "created_at", "seconds": 3_600}
        asked = sent(server, lambda: client.files.upload(file=files[kind], purpose="batch", expires_after=expiry))
    assert asked.headers["content-type"].startswith("multipart/form-data")
    assert b'{"a": 1}\n' in asked.body
    assert b'name="expires_after[seconds]"\r\n\r\n3600' in asked.body
    name = {"path": b"questions.jsonl", "open": b"questions.jsonl", "pair": b"q", "bytes": b"file"}[kind]
    assert b'filename="' + name + b'"' in asked.body


def test_fields_that_this_version_does_not_know_can_be_sent(client: Client, server: ScriptedServer) -> None:
    asked = sent(server, lambda: client.rentals.change(17, label="a", extra={"newField": Decimal("1.5")}))
    assert asked.body == {"label": "a", "newField": "1.5"}
    server.handler = lambda asked: {"did": asked.body}
    assert client.request("POST", "/v2/things", json={"a": 1}) == {"did": {"a": 1}}
