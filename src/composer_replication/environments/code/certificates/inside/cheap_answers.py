"""Runs inside a sandbox, imported by a solution whose functions are decorated with `judged`: it answers only where the
answer could be had without the feature, and fails otherwise.

Needs the standard library, nothing of ours. Cheap are: an exception; a usual constant or a documented answer, while few
of them have to be guessed; what the caller handed over, has at hand or made the object of, also through one builtin; a
documented example; the answer of a neighbouring function. Objects with a state of their own are never cheap. A test
that passes here proves little: see `certificates/cheap.py`, which writes `DOCUMENTED` and `ANSWERS` below this.
"""

import copy
import functools
import inspect
import itertools
import os
import signal
import sys
import threading
import time
from types import GeneratorType

DOCUMENTED: dict[str, list[str]] = {}
"""Text of the arguments -> texts of the answers, from all that the agent can read."""
ANSWERS: dict[str, list[str]] = {}
"""Name of a function -> texts of its documented answers."""

PLAIN = (str, bytes, int, float, complex, bool, list, tuple, dict, set, frozenset, type(None))
CONSTANTS = (None, True, False, 0, 1, -1, 2, "", b"", (), [], {}, set(), NotImplemented)
BUILTINS = (
    str, repr, len, list, tuple, set, dict, sorted, sum, min, max, abs, round, int, float, bool, bytes,
    lambda value: value[::-1], lambda value: [value], lambda value: (value,), lambda value: value[0],
    lambda value: value.lower(), lambda value: value.upper(), lambda value: value.strip(), lambda value: value.title(),
    lambda value: value.split(), lambda value: -value, lambda value: not value,
)  # fmt: skip
ITERATORS = (GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice)
MAX_GUESSES = 4
"""Different calls of one test whose answers are constants that differ."""
MAX_ITEMS = 1000
MAX_AT_HAND = 2000
NEIGHBOURS_S = 1.0
"""Processor seconds of all neighbours together."""
ONE_NEIGHBOUR_S = 0.05


class NotCheap(BaseException):
    """No `except Exception` of the code under test or of a test takes it for an answer."""


class _State(threading.local):
    inside = False


_state = _State()
_made_of: dict[int, tuple[object, tuple[object, ...]]] = {}
_guesses: dict[str, dict[str, str]] = {}
_neighbours_used_s = [0.0]
_NO_ANSWER = object()


def judged(function):
    @functools.wraps(function)
    def answer(*args, **kwargs):
        if _state.inside:
            return function(*args, **kwargs)
        _state.inside = True
        try:
            given = tuple(map(_as_it_was, args))
            named = {name: _as_it_was(value) for name, value in kwargs.items()}
            result = function(*args, **kwargs)
            items = list(itertools.islice(result, MAX_ITEMS)) if isinstance(result, ITERATORS) else None
            if not _is_cheap(function, result if items is None else items, given, named):
                raise NotCheap(function.__name__)
            return result if items is None else itertools.chain(items, result)
        finally:
            _state.inside = False

    answer.is_judged = True
    return answer


def remember_arguments(names):
    """Of every object that the classes of a module make."""
    for kind in [value for value in names.values() if isinstance(value, type)]:
        if kind.__module__ == names["__name__"] and inspect.isfunction(vars(kind).get("__init__")):
            kind.__init__ = _remembering(kind.__init__)


def _remembering(initialiser):
    @functools.wraps(initialiser)
    def remembered(self, *args, **kwargs):
        _made_of.setdefault(id(self), (self, (*args, *kwargs.values())))
        return initialiser(self, *args, **kwargs)

    return remembered


def _as_it_was(value):
    """A function may change what it is given, and give that back: only plain values are compared then."""
    return _copied(value) if type(value) in PLAIN else value


def _copied(value):
    try:
        return copy.deepcopy(value)
    except Exception:
        return None


def _is_cheap(function, result, given, named):
    if not isinstance(result, PLAIN) and result is not NotImplemented:
        return False
    return (
        any(_same(result, value) for value in _at_hand(given, named))
        or any(_same(result, value) for value in _derived(given, named))
        or _is_documented(result, given, named)
        or _is_guessed(function, result, given, named)
        or any(_same(result, value) for value in _of_neighbours(function, given, named))
    )


def _same(result, value):
    try:
        if isinstance(result, (list, tuple)) and isinstance(value, (list, tuple)):
            return list(result) == list(value)
        return (type(value) in PLAIN or type(value) is type(result)) and bool(result == value)
    except Exception:
        return False


def _at_hand(given, named):
    """Arguments, what is in them, what objects were made of, and what the calling test has in its frame."""
    found = [given, *given, *named.values()]
    for each in given:
        found += _made_of.get(id(each), (None, ()))[1]
        found += getattr(each, "__dict__", {}).values()
    frame = sys._getframe(3)
    while frame is not None:
        if "_observe" in frame.f_globals:
            found += [value for name, value in frame.f_locals.items() if name != "_seen"]
            found += frame.f_code.co_consts
            found += getattr(frame.f_locals.get("self"), "__dict__", {}).values()
        frame = frame.f_back
    for each in found[:MAX_AT_HAND]:
        if type(each) in (list, tuple):
            found += each[:MAX_ITEMS]
        elif type(each) is dict:
            found += [*each, *each.values()][:MAX_ITEMS]
    return found


def _derived(given, named):
    first, *rest = given or (None,)
    if callable(first) and rest:
        for call in (first, lambda *values: list(map(first, *values)), lambda *values: list(filter(first, *values))):
            yield _answer(call, rest, {})
    for value in (*given, *named.values()):
        if type(value) in PLAIN:
            yield from (_answer(builtin, [value], {}) for builtin in BUILTINS)


def _answer(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except Exception:
        return _NO_ANSWER


def _is_documented(result, given, named):
    shown = [_text(value) for value in given] + [f"{name}={_text(value)}" for name, value in named.items()]
    wants = [want for start in (0, 1) for want in DOCUMENTED.get(bare(", ".join(shown[start:])), ())]
    return bool(wants) and (bare(_text(result)) in wants or bare(str(result)) in wants)


def _text(value):
    try:
        return repr(value)
    except Exception:
        return "?"


def bare(text):
    """Without what differs between writers."""
    return text.replace("'", '"').replace(" ", "").rstrip(")")


def _is_guessed(function, result, given, named):
    known = bare(_text(result)) in ANSWERS.get(function.__name__, ())
    if not known and not any(type(result) is type(value) and _same(result, value) for value in CONSTANTS):
        return False
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    guesses = _guesses.setdefault(test, {})
    guesses[_text((given, named))] = _text(result)
    return len(guesses) <= MAX_GUESSES or len(set(guesses.values())) == 1


def _of_neighbours(function, given, named):
    is_method = "." in function.__qualname__ and given
    owner = vars(type(given[0])) if is_method else function.__globals__
    signal.signal(signal.SIGVTALRM, _stop)
    for neighbour in [value for value in owner.values() if inspect.isfunction(value)]:
        if _neighbours_used_s[0] > NEIGHBOURS_S:
            return
        if neighbour.__name__ == function.__name__ or hasattr(neighbour, "is_judged"):
            continue
        started = time.process_time()
        # By processor time: the run's own alarm is by the clock.
        signal.setitimer(signal.ITIMER_VIRTUAL, ONE_NEIGHBOUR_S)
        try:
            value = _answer(neighbour, *(_copied((given, named)) or ((), {})))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        _neighbours_used_s[0] += time.process_time() - started
        yield list(itertools.islice(value, MAX_ITEMS)) if isinstance(value, ITERATORS) else value


def _stop(number, frame):
    raise TimeoutError
