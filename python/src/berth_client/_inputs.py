"""Types of arguments that many operations share."""

from __future__ import annotations

import os
from datetime import datetime
from decimal import Decimal
from typing import IO, Final, TypeAlias


class Omit:
    """The type of `OMIT`."""

    def __repr__(self) -> str:
        return "OMIT"

    def __bool__(self) -> bool:
        return False


OMIT: Final = Omit()
"""Leaves a value as it is, where `None` would remove it."""

Usd: TypeAlias = Decimal | int | float | str
"""An amount in USD with at most nine decimals."""

Time: TypeAlias = datetime | str
"""An aware `datetime`, or a text in the form of RFC 3339."""

FileInput: TypeAlias = str | os.PathLike[str] | bytes | IO[bytes] | tuple[str, bytes]
"""The path of a file, an open file, bytes, or a name and bytes."""
