"""The authors of the tuning set. They may know the monitor's rules; those of the test set may not."""

from .attackers import attacks
from .honest import honest

__all__ = ["attacks", "honest"]
