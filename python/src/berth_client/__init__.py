"""
The Python client of Berth.

    from berth_client import Client

    client = Client()
    for rental in client.rentals.list():
        print(rental.name, rental.state)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import (
    ApiError,
    AuthenticationError,
    BadRequestError,
    BerthError,
    InsufficientBalanceError,
    Issue,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RequestTimeout,
    ServerError,
    TransportError,
    UnexpectedAnswer,
    WaitError,
    WaitFailed,
    WaitTimeout,
)
from ._generated.version import VERSION as __version__
from ._inputs import OMIT, Omit

if TYPE_CHECKING:
    from . import inputs, models
    from ._aio.client import AsyncClient
    from ._aio.pages import AsyncPages
    from ._sync.client import Client
    from ._sync.pages import Pages

__all__ = [
    "OMIT",
    "ApiError",
    "AsyncClient",
    "AsyncPages",
    "AuthenticationError",
    "BadRequestError",
    "BerthError",
    "Client",
    "InsufficientBalanceError",
    "Issue",
    "NotFoundError",
    "Omit",
    "Pages",
    "PermissionDeniedError",
    "RateLimitError",
    "RequestTimeout",
    "ServerError",
    "TransportError",
    "UnexpectedAnswer",
    "WaitError",
    "WaitFailed",
    "WaitTimeout",
    "__version__",
    "inputs",
    "models",
]

# Loaded when they are first used: a program needs one of the two clients, and the types of answers only with the first one.
_places = {
    "AsyncClient": "._aio.client",
    "AsyncPages": "._aio.pages",
    "Client": "._sync.client",
    "Pages": "._sync.pages",
    "inputs": ".inputs",
    "models": ".models",
}


def __getattr__(name: str) -> Any:
    place = _places.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(place, __name__)
    value = module if place == f".{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
