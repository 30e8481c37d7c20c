"""The types of answers."""

from ._generated.models import *  # noqa: F403
from ._generated.models import __all__ as __all__
from ._model import BerthModel as BerthModel
from ._model import UnknownObject as UnknownObject
