"""Frozen states under external teachers."""

from .gate import State, choose_states, states_to_ask
from .roster import DEFAULT_TEACHERS, ORIGIN_TEACHERS
from .runner import replay_states, replay_trace
from .teachers import Teacher

__all__ = [
    "DEFAULT_TEACHERS",
    "ORIGIN_TEACHERS",
    "State",
    "Teacher",
    "choose_states",
    "replay_states",
    "replay_trace",
    "states_to_ask",
]
