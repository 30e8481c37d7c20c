"""Arguments as the server takes them: its names, amounts as text, times in UTC."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import IO, Any
from urllib.parse import quote

from ._generated.operations import SHAPES
from ._inputs import OMIT
from ._operation import Operation

Part = Mapping[str, Any]
FilePart = tuple[str, bytes | IO[bytes]]


def encode(value: Any, shape: Any = None, name: str = "value") -> Any:
    """`shape`: what scripts/python-shapes.ts wrote for the value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(shape, tuple) and shape[0] == "ref":
        shape = SHAPES.get(shape[1])
    if isinstance(value, datetime):
        return _time(value, name)
    if isinstance(value, date):
        return value.isoformat()
    if shape in ("money", "number") and isinstance(value, (Decimal, int, float, str)):
        return _amount(value) if shape == "money" else float(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (str, int, float)):
        return value
    return _structure(value, shape, name)


def _structure(value: Any, shape: Any, name: str) -> Any:
    if hasattr(value, "model_dump"):
        # An answer, or a part of one, that is sent back: it knows its names on the wire.
        return encode(value.model_dump(by_alias=True, exclude_unset=True), None, name)
    if isinstance(value, Mapping):
        if isinstance(shape, dict):
            return {
                field: encode(one, inner, f"{name}.{key}")
                for key, one in value.items()
                for field, inner in [shape.get(key, (key, None))]
                if one is not OMIT
            }
        inner = shape[1] if isinstance(shape, tuple) and shape[0] == "map" else None
        return {key: encode(one, inner, f"{name}.{key}") for key, one in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        inner = shape[1] if isinstance(shape, tuple) and shape[0] == "list" else None
        return [encode(one, inner, name) for one in value]
    raise TypeError(f"{name} cannot be sent: {type(value).__name__}")


def _amount(value: Decimal | float | str) -> str:
    if isinstance(value, float):
        # The shortest text that stands for it: 2.5 is 2.5.
        return format(Decimal(repr(value)), "f")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _time(value: datetime, name: str) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{name} has no time zone; use datetime.now(UTC), for example")
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def present(operation: Operation[Any], part: Part) -> dict[str, Any]:
    """Without arguments that the caller left out."""
    return {
        name: value
        for name, value in part.items()
        if value is not OMIT and (value is not None or name in operation.nullable)
    }


def encode_body(operation: Operation[Any], body: Part | None, extra: Part | None) -> dict[str, Any] | None:
    if body is None and not extra:
        return None
    fields = present(operation, body or {})
    files = {"file": fields.pop("file")} if operation.form else {}
    encoded: dict[str, Any] = encode(fields, operation.body or {}, "body")
    return {**encoded, **encode(dict(extra or {})), **files}


def encode_query(operation: Operation[Any], query: Part | None, extra: Part | None) -> dict[str, str]:
    encoded = encode(present(operation, query or {}), operation.query or {}, "query")
    return {name: _text(value) for name, value in {**encoded, **encode(dict(extra or {}))}.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_text(one) for one in value)
    return str(value)


def fill_path(operation: Operation[Any], path: Part | None) -> str:
    """Puts the arguments in their places."""
    filled = operation.path
    for name, value in (path or {}).items():
        text = str(value)
        # Even encoded, dots mean "here" and "up" in a URL: the call would reach another operation.
        if text in ("", ".", "..") or (operation.rest_of_path and "/../" in f"/{text}/"):
            raise ValueError(f'"{text}" cannot be the {name} of {operation.path}')
        places = [part for part in _places(operation.path) if _same(part, name)]
        filled = filled.replace("{" + places[0] + "}", quote(text, safe="/" if operation.rest_of_path else ""))
    return filled


def _places(path: str) -> list[str]:
    return [part.split("}")[0] for part in path.split("{")[1:]]


def _same(wire: str, name: str) -> bool:
    return wire.lower().replace("_", "") == name.lower().replace("_", "")


def encode_form(body: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, FilePart], list[IO[bytes]]]:
    """The fields and the files of a form, and the files that were opened for it."""
    fields: dict[str, str] = {}
    files: dict[str, FilePart] = {}
    opened: list[IO[bytes]] = []
    for name, value in body.items():
        if name == "file":
            files[name] = _file(value, opened)
        elif isinstance(value, Mapping):
            fields |= {f"{name}[{key}]": _text(one) for key, one in value.items()}
        elif isinstance(value, (list, tuple)):
            fields |= {f"{name}[]": _text(one) for one in value}
        else:
            fields[name] = _text(value)
    return fields, files, opened


def _file(value: Any, opened: list[IO[bytes]]) -> FilePart:
    if isinstance(value, tuple):
        return value
    if isinstance(value, bytes):
        return ("file", value)
    if isinstance(value, (str, os.PathLike)):
        file = open(value, "rb")  # noqa: SIM115 - the caller closes it after the request
        opened.append(file)
        return (os.path.basename(value), file)
    name = getattr(value, "name", "file")
    return (os.path.basename(name) if isinstance(name, str) else "file", value)
