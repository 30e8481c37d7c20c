"""The base of the classes with a method for each operation."""

from __future__ import annotations

from .transport import AsyncTransport


class Resource:
    """Operations on one noun."""

    _transport: AsyncTransport

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._transport.url}>"
