"""What the test set offers: attackers by class, kinds of honest work, and the attempts of both on a task."""

from testing.attackers import attacks
from testing.hiding import ATTACKERS
from testing.honest import honest
from testing.honesty import HONEST

__all__ = ["ATTACKERS", "HONEST", "attacks", "honest"]
