"""Hidden tests as programs that only send values: what is expected leaves the process that is graded."""

from .data import LoweredCheck, LoweredModule
from .texts import lower

__all__ = ["LoweredCheck", "LoweredModule", "lower"]
