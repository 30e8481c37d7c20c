"""Lists of any length. Iterating reads one page after the other and keeps one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, TypeVar

from .._errors import BerthError
from .._operation import Operation
from .transport import AsyncTransport

T = TypeVar("T")

# Lists that go on before the last ID show their end with a page that is not full.
BEFORE_PAGE_SIZE = 1_000


class AsyncPages(Generic[T]):
    """The rows of a list. Each iteration begins with the first row."""

    def __init__(
        self,
        transport: AsyncTransport,
        operation: Operation[Any],
        *,
        page_size: int | None = None,
        path: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError("page_size must be at least 1")
        self._transport = transport
        self._operation = operation
        self._page_size = page_size
        self._path = path
        self._query = query or {}
        self._extra = extra or {}
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._operation.path}>"

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for row in self._rows(page):
                yield row

    async def pages(self) -> AsyncIterator[Any]:
        """The answers as they are, with what they say beside their rows, such as totals."""
        style = self._operation.style
        size = self._page_size or (BEFORE_PAGE_SIZE if style == "before" else None)
        limit = {} if size is None or style == "whole" else {"limit": size}
        position: str | int | None = None
        while True:
            at: dict[str, Any] = {} if position is None else {style: position}
            page = await self._transport.call(
                self._operation,
                path=self._path,
                query=self._query,
                extra={**self._extra, **limit, **at},
                timeout=self._timeout,
            )
            yield page
            following = self._next(page, position, size)
            if following is None:
                return
            if following == position:
                raise BerthError(f"{self._operation.path} answers with the same page again")
            position = following

    async def first(self) -> T | None:
        """The first row; None if there is none."""
        async for row in self:
            return row
        return None

    async def to_list(self, limit: int | None = None) -> list[T]:
        """All rows, or the first ones."""
        rows: list[T] = []
        async for row in self:
            if limit is not None and len(rows) >= limit:
                break
            rows.append(row)
        return rows

    def _rows(self, page: Any) -> list[T]:
        rows: list[T] = page if self._operation.items == "" else getattr(page, self._operation.items)
        return rows

    def _next(self, page: Any, position: str | int | None, size: int | None) -> str | int | None:
        rows: list[Any] = self._rows(page)
        match self._operation.style:
            case "cursor":
                cursor: str | None = page.next_cursor
                return cursor
            case "after" | "after_id":
                last: str | None = page.last_id if page.has_more else None
                return last
            case "before":
                number: int | None = rows[-1].id if len(rows) >= (size or 1) else None
                return number
            case "offset":
                offset = int(position or 0) + len(rows)
                return offset if rows and offset < page.matches else None
            case _:
                return None
