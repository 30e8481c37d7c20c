"""Answers as Python values. Loaded with the first answer, because pydantic takes long to import."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ._errors import UnexpectedAnswer
from ._generated import models
from ._model import INFERENCE_ID, BerthModel

MAX_FAULTS = 5


@cache
def _adapter(expression: str) -> TypeAdapter[Any]:
    # The expressions are those of `_generated/operations.py`.
    return TypeAdapter(eval(expression, vars(models)))  # noqa: S307


def decode(expression: str, content: bytes | str, inference_id: str | None = None) -> Any:
    try:
        value = _adapter(expression).validate_json(content)
    except ValidationError as error:
        raise UnexpectedAnswer(_describe(error), content) from None
    if inference_id is not None and isinstance(value, BerthModel):
        value.__dict__[INFERENCE_ID] = inference_id
    return value


def _describe(error: ValidationError) -> str:
    """Says which fields are wrong, without their values: one may be a secret."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    named = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults[:MAX_FAULTS]]
    return f"The answer has another form than this version of berth-client expects: {'; '.join(named)}"
