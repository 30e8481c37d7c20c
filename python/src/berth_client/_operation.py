"""One operation of the server as data; `_generated/operations.py` has them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """What is sent, and how the answer is read."""

    method: str
    path: str
    answer: str
    """The type of the answer, by its name in `models`."""
    kind: Literal["json", "text", "bytes"] = "json"
    accept: str = "application/json"
    chunk: str | None = None
    """The type of one event of a streamed answer."""
    idempotent: bool = False
    """A create: with the same `Idempotency-Key` it happens once."""
    form: bool = False
    rest_of_path: bool = False
    """The last part of the path may contain slashes."""
    style: Literal["cursor", "before", "after", "after_id", "offset", "whole"] = "whole"
    items: str = ""
    """The field of a page that has its rows; empty: the answer is the list."""
    query: Any = None
    body: Any = None
    nullable: frozenset[str] = frozenset()
    """Fields for which `None` is sent, because it is a value of its own."""
