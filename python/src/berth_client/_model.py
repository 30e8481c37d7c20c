"""The base of all answers: fields and values that a newer server adds are kept."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict

Number: TypeAlias = int | float
CENT = Decimal("0.01")


def without_zeros(amount: Decimal) -> Decimal:
    """The same amount as people write it: 2.49 for 2.490000000, 0.00 for 0.000000000."""
    return amount.quantize(CENT) if amount == amount.quantize(CENT) else amount.normalize()


Usd: TypeAlias = Annotated[Decimal, AfterValidator(without_zeros)]
INFERENCE_ID = "_inference_request_id"


class BerthModel(BaseModel):
    """An answer of the server, or a part of one."""

    model_config = ConfigDict(
        extra="allow",
        defer_build=True,
        # Answers to creates of keys contain a secret.
        hide_input_in_errors=True,
        protected_namespaces=(),
        validate_by_alias=True,
        validate_by_name=True,
    )

    @property
    def inference_request_id(self) -> str | None:
        """Of an answer of a model: `usage.request_cost` takes it."""
        value = self.__dict__.get(INFERENCE_ID)
        return value if isinstance(value, str) else None


class UnknownObject(BerthModel):
    """An object of a kind that this version of the client does not know; its fields are in `model_extra`."""
