"""Frozen states under external teachers."""

from .runner import State, replay_states, replay_trace, states_to_ask
from .teachers import Teacher

__all__ = ["State", "Teacher", "replay_states", "replay_trace", "states_to_ask"]
