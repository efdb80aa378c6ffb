"""Grades what an agent submitted, outside every sandbox that the agent has touched."""

from .grader import grade

__all__ = ["grade"]
