"""The types of values within requests, for annotations."""

from ._generated.inputs import *  # noqa: F403
from ._generated.inputs import __all__ as __all__
from ._inputs import FileInput as FileInput
from ._inputs import Time as Time
from ._inputs import Usd as Usd
