"""P40: errors say what happened, and nothing that is printed has a key."""

from __future__ import annotations

import io
import pickle
import traceback
from typing import Any

import pytest

from berth_client import (
    ApiError,
    AuthenticationError,
    BadRequestError,
    BerthError,
    Client,
    InsufficientBalanceError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    TransportError,
    UnexpectedAnswer,
)
from conftest import KEY, Reply, ScriptedServer

ISSUE = {"code": "too_small", "path": ["gpuCount"], "message": "Must be at least 1"}
V2 = {"message": "Invalid input data", "code": "BAD_REQUEST", "reason": "invalid_input", "issues": [ISSUE]}
DETAIL = {"type": "too_small", "loc": ["body", "gpu_count"], "msg": "Must be at least 1", "input": 0}
INNER = {"message": "Invalid input data", "type": "invalid_request_error", "param": None, "code": 422}
V1 = {**INNER, "object": "error", "error": INNER, "reason": "invalid_input", "detail": [DETAIL], "error_code": 422}
MESSAGE = {"type": "error", "error": {"type": "not_found_error", "message": "No model"}, "reason": "model_not_found"}
HEADERS = {"X-Request-Id": "req_1"}


@pytest.mark.parametrize(
    ("body", "path"), [(V2, ("gpuCount",)), (V1, ("gpu_count",))], ids=["v2", "v1"]
)
def test_p40_status_reason_issues_and_request_id(
    client: Client, server: ScriptedServer, body: Any, path: tuple[str, ...]
) -> None:
    server.handler = lambda _: Reply(body, 400, HEADERS)
    with pytest.raises(BadRequestError) as raised:
        client.rentals.get(17)
    error = raised.value
    assert (error.status, error.reason, error.request_id) == (400, "invalid_input", "req_1")
    assert [(issue.code, issue.path, issue.message) for issue in error.issues] == [
        ("too_small", path, "Must be at least 1")
    ]
    assert "invalid_input" in str(error)
    assert "req_1" in str(error)
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - of this test
    assert (type(copied), str(copied), copied.issues) == (type(error), str(error), error.issues)


def test_p40_the_form_of_messages(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: Reply(MESSAGE, 404, HEADERS)
    with pytest.raises(NotFoundError) as raised:
        client.messages.create(model="none", max_tokens=1, messages=[])
    assert (raised.value.code, raised.value.reason) == ("not_found_error", "model_not_found")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AuthenticationError),
        (402, InsufficientBalanceError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (409, BadRequestError),
        (422, BadRequestError),
        (429, RateLimitError),
        (500, ServerError),
        (503, ServerError),
        (301, ApiError),
    ],
)
def test_p40_each_status_has_a_class(
    client: Client, server: ScriptedServer, status: int, kind: type[ApiError]
) -> None:
    server.handler = lambda _: Reply(b"<html>a proxy</html>", status, {"Content-Type": "text/html"})
    with pytest.raises(kind) as raised:
        client.rentals.change(17, label="a")
    assert raised.value.status == status
    assert raised.value.code == f"HTTP_{status}"


def everything(error: BaseException) -> str:
    """What a log or a crash report may have of it, with the values of all variables."""
    text = io.StringIO()
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    print("".join(shown.format()), file=text)
    seen: BaseException | None = error
    while seen is not None:
        print(repr(seen), str(seen), vars(seen), file=text)
        seen = seen.__cause__ or seen.__context__
    return text.getvalue()


def test_p40_no_error_has_the_key(server: ScriptedServer) -> None:
    errors: list[BerthError] = []
    for url, reply in [(server.url, Reply({}, 401)), (server.url, Reply(cut=True)), ("http://127.0.0.1:9", None)]:
        server.handler = lambda _, reply=reply: reply
        with Client(url=url, key=KEY, max_retries=0) as client, pytest.raises(BerthError) as raised:
            client.rentals.get(17)
        errors.append(raised.value)
    assert [type(error) for error in errors] == [AuthenticationError, TransportError, TransportError]
    for error in errors:
        assert KEY not in everything(error)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY} ", f"{KEY}é"])
def test_p40_a_key_that_no_header_can_have_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ValueError, match="key") as raised:
        Client(key=key)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("url", ["berth.example.com", "https://", f"https://a:{KEY}@berth.example.com"])
def test_p40_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as raised:
        Client(url=url)
    assert KEY not in str(raised.value)


def test_p40_no_repr_has_the_key(client: Client) -> None:
    for one in [client, client._transport, client._transport._auth, client.rentals, client.rentals.list()]:
        assert KEY not in repr(one)
        assert KEY not in str(one)


NEW_KEY = {
    "publicId": "a",
    "kind": "key",
    "memberId": "m",
    "name": "laptop",
    "last4": "abcd",
    "scopes": ["inference"],
    "allowedModels": None,
    "allowedOrigins": [],
    "monthlyLimitUsd": None,
    "totalLimitUsd": None,
    "class": "interactive",
    "requestsPerMinute": None,
    "tokensPerMinute": None,
    "createdAt": "2026-01-02T03:04:05.678Z",
    "expiresAt": None,
    "lastUsedAt": None,
    "revokedAt": None,
    "graceEndsAt": None,
    "spentThisMonthUsd": "0.000000000",
    "spentUsd": "0.000000000",
    "key": "bk_new-secret",
}


def test_p40_a_new_key_can_be_read_but_is_not_printed(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: NEW_KEY
    created = client.api_keys.create(name="laptop", scopes=["inference"])
    assert created.key == "bk_new-secret"
    assert "bk_new-secret" not in repr(created) + str(created)


def test_p40_an_answer_that_cannot_be_read_shows_no_values(client: Client, server: ScriptedServer) -> None:
    server.handler = lambda _: {"key": "bk_new-secret", "scopes": "bk_new-secret"}
    with pytest.raises(UnexpectedAnswer) as raised:
        client.api_keys.create(name="laptop", scopes=["inference"])
    assert "bk_new-secret" not in str(raised.value) + repr(raised.value)
    assert b"bk_new-secret" in bytes(raised.value.body if isinstance(raised.value.body, bytes) else b"")
