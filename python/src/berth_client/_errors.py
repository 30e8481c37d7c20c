"""
How a call can fail. `ApiError`: the server refused it. `TransportError`: it is unknown what the server did, or whether
it was reached. No error contains the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


class BerthError(Exception):
    """The base of all errors of this package."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One field of a request that the server did not accept."""

    code: str
    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(str(part) for part in self.path)}: {self.message}" if self.path else self.message


class ApiError(BerthError):
    """The server refused a request."""

    status: int
    """The HTTP status."""
    code: str
    """`BAD_REQUEST` and others, or a type such as `invalid_request_error`."""
    reason: str | None
    """Why, for programs: a row of https://github.com/berth/berth/blob/main/docs/errors.md."""
    issues: tuple[Issue, ...]
    request_id: str | None
    """Helps the operator to find the request."""
    retry_after: float | None
    """Seconds after which the request may succeed."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        reason: str | None = None,
        issues: tuple[Issue, ...] = (),
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reason = reason
        self.issues = issues
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        facts = [str(self.status), *([self.reason] if self.reason else [])]
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{super().__str__()} ({', '.join(facts)}{request})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self.args[0], dict(self.__dict__)))


def _restore(kind: type[ApiError], message: str, fields: dict[str, Any]) -> ApiError:
    return kind(message, **fields)


class BadRequestError(ApiError):
    """400, 409, 413, 415 or 422: the request has to change."""


class AuthenticationError(ApiError):
    """401: there is no key, or it is not valid."""


class InsufficientBalanceError(ApiError):
    """402: the balance is too small."""


class PermissionDeniedError(ApiError):
    """403: the key may not do this."""


class NotFoundError(ApiError):
    """404: it does not exist, or belongs to another account."""


class RateLimitError(ApiError):
    """429: too many requests; `retry_after` has the seconds to wait."""


class ServerError(ApiError):
    """500 and above."""


class TransportError(BerthError):
    """The outcome of a call is unknown."""


class RequestTimeout(TransportError, TimeoutError):
    """The server did not answer in time."""


class UnexpectedAnswer(BerthError):
    """The answer cannot be read. The server did what it was asked to do."""

    body: bytes | str
    """What it answered."""

    def __init__(self, message: str, body: bytes | str) -> None:
        super().__init__(message)
        self.body = body

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.args[0], self.body))


class WaitError(BerthError):
    """Waiting for a state ended without it."""

    value: Any
    """What was waited for, as it was last seen."""

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value


class WaitFailed(WaitError):
    """It cannot reach the state any more."""

    reason: str | None
    """Why, for programs."""

    def __init__(self, message: str, value: Any, reason: str | None) -> None:
        super().__init__(message, value)
        self.reason = reason


class WaitTimeout(WaitError, TimeoutError):
    """It has not reached the state in time. It goes on, and may cost money."""

    cost_per_hour_usd: Decimal | None
    """What it costs per hour now; None: not known."""

    def __init__(self, message: str, value: Any, cost_per_hour_usd: Decimal | None) -> None:
        super().__init__(message, value)
        self.cost_per_hour_usd = cost_per_hour_usd


_kinds: Mapping[int, type[ApiError]] = {
    401: AuthenticationError,
    402: InsufficientBalanceError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitError,
}


def api_error(status: int, headers: Mapping[str, str], content: bytes | str) -> ApiError:
    """An answer with an error, in any of the forms that the server has."""
    body = _object(content)
    inner = body.get("error")
    nested: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
    issues = _issues(body)
    message = _text(body.get("message")) or _text(nested.get("message")) or f"The server answered with status {status}"
    details = [str(issue) for issue in issues if issue.message not in message]
    default = ServerError if status >= 500 else BadRequestError if 400 <= status else ApiError
    return _kinds.get(status, default)(
        f"{message}: {'; '.join(details)}" if details else message,
        status=status,
        code=_text(body.get("code")) or _text(nested.get("type")) or _text(body.get("type")) or f"HTTP_{status}",
        reason=_text(body.get("reason")),
        issues=issues,
        request_id=headers.get("x-request-id"),
        retry_after=_seconds(headers.get("retry-after")),
    )


def _object(content: bytes | str) -> Mapping[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _issues(body: Mapping[str, Any]) -> tuple[Issue, ...]:
    """`issues`, or the `detail` of operations below /v1, whose paths begin with the part of the request."""
    rows = body.get("issues")
    if isinstance(rows, list):
        return tuple(Issue(str(row.get("code")), tuple(row.get("path", ())), str(row.get("message"))) for row in rows)
    details = body.get("detail")
    if not isinstance(details, list):
        return ()
    return tuple(Issue(str(row.get("type")), tuple(row.get("loc", ())[1:]), str(row.get("msg"))) for row in details)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value != "" else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
