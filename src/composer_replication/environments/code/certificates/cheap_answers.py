"""Runs inside a sandbox, imported by a solution whose functions are decorated with `judged`: it answers only where the
answer could be had without the feature, and fails otherwise.

Needs the standard library, nothing of ours. Cheap are: an exception; a usual constant or a documented answer, while few
of them have to be guessed; what the caller handed over, has at hand or made the object of, also through one builtin; a
documented example; the answer of a neighbouring function. Objects with a state of their own are never cheap. A test
that passes here proves little: see `certificates/strength.py`, which writes `DOCUMENTED` and `ANSWERS` below this.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, GeneratorType
from typing import Any

DOCUMENTED: dict[str, list[str]] = {}
"""Text of the arguments -> texts of the answers, from all that the agent can read."""
ANSWERS: dict[str, list[str]] = {}
"""Name of a function -> texts of its documented answers."""

PLAIN = (str, bytes, int, float, complex, bool, list, tuple, dict, set, frozenset, type(None))
CONSTANTS = (None, True, False, 0, 1, -1, 2, "", b"", (), [], {}, set(), NotImplemented)
BUILTINS: tuple[Callable[[Any], Any], ...] = (
    str, repr, len, list, tuple, set, dict, sorted, sum, min, max, abs, round, int, float, bool, bytes,
    lambda value: value[::-1], lambda value: [value], lambda value: (value,), lambda value: value[0],
    lambda value: value.lower(), lambda value: value.upper(), lambda value: value.strip(), lambda value: value.title(),
    lambda value: value.split(), lambda value: -value, lambda value: not value,
)  # fmt: skip
ITERATORS = (GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice)
MAX_GUESSES = 8
"""Different calls of one test whose answers are constants, some true and some false."""
MAX_ITEMS = 1000
NEIGHBOURS_S = 1.0
"""Processor seconds of all neighbours together."""
ONE_NEIGHBOUR_S = 0.05
NO_ANSWER = object()

Arguments = tuple[Any, ...]
Named = Mapping[str, Any]


class NotCheap(BaseException):
    """No `except Exception` of the code under test or of a test takes it for an answer."""


class _Here(threading.local):
    is_inside = False


class _Seen:
    """In this process so far."""

    def __init__(self) -> None:
        self.made_of: dict[int, tuple[object, Arguments]] = {}
        self.guesses: dict[str, dict[str, bool]] = {}
        self.neighbours_s = 0.0


_here, _seen = _Here(), _Seen()


def judged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def answer(*args: Any, **kwargs: Any) -> Any:
        if _here.is_inside:
            return function(*args, **kwargs)
        _here.is_inside = True
        try:
            given = tuple(map(_as_it_was, args))
            named = {name: _as_it_was(value) for name, value in kwargs.items()}
            result = function(*args, **kwargs)
            items = _items(result)
            if not _is_cheap(function, items, given, named):
                raise NotCheap(function.__name__)
            return itertools.chain(items, result) if isinstance(result, ITERATORS) else result
        finally:
            _here.is_inside = False

    vars(answer)["is_judged"] = True
    return answer


def remember_arguments(names: Named) -> None:
    """Of every object that the classes of a module make."""
    for kind in [value for value in names.values() if isinstance(value, type)]:
        if kind.__module__ == names["__name__"] and inspect.isfunction(vars(kind).get("__init__")):
            kind.__init__ = _remembering(vars(kind)["__init__"])


def _remembering(initialiser: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(initialiser)
    def remembered(self: object, *args: Any, **kwargs: Any) -> None:
        _seen.made_of.setdefault(id(self), (self, (*args, *kwargs.values())))
        initialiser(self, *args, **kwargs)

    return remembered


def _as_it_was(value: Any) -> Any:
    """A function may change what it is given, and give that back."""
    return _copied(value) if type(value) in PLAIN else value


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:
        return None


def _items(value: Any) -> Any:
    """Of an iterator what it gives first; anything else as it is."""
    return list(itertools.islice(value, MAX_ITEMS)) if isinstance(value, ITERATORS) else value  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _is_cheap(function: Callable[..., Any], result: Any, given: Arguments, named: Named) -> bool:
    if not isinstance(result, PLAIN) and result is not NotImplemented:
        return False
    if _is_documented(result, given, named):
        return True
    if any(type(result) is type(value) and _same(result, value) for value in CONSTANTS):
        return _is_guessed(result, given, named)
    return (
        _is_one_of(result, _at_hand(given, named))
        or _is_one_of(result, _derived(given, named))
        or (bare(_text(result)) in ANSWERS.get(function.__name__, ()) and _is_guessed(result, given, named))
        or _is_one_of(result, _of_neighbours(function, given, named))
    )


def _is_one_of(result: Any, values: Iterable[Any]) -> bool:
    return any(_same(result, value) for value in values)


def _same(result: Any, value: Any) -> bool:
    try:
        if isinstance(result, (list, tuple)) and isinstance(value, (list, tuple)):
            return [*result] == [*value]
        return (type(value) in PLAIN or type(value) is type(result)) and bool(result == value)
    except Exception:
        return False


def _at_hand(given: Arguments, named: Named) -> list[Any]:
    """Arguments, what is in them, what objects were made of, and what the calling test has in its frame."""
    found: list[Any] = [given, *given, *named.values()]
    for each in given:
        found += _seen.made_of.get(id(each), (None, ()))[1]
        found += getattr(each, "__dict__", {}).values()
    frame: FrameType | None = sys._getframe(3)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if "_observe" in frame.f_globals:
            found += [value for name, value in frame.f_locals.items() if name != "_seen"]
            found += frame.f_code.co_consts
            found += getattr(frame.f_locals.get("self"), "__dict__", {}).values()
        frame = frame.f_back
    return found + [part for each in found for part in _parts(each)]


def _parts(value: Any) -> list[Any]:
    if type(value) is dict:
        return [*value, *value.values()][:MAX_ITEMS]
    return [*value[:MAX_ITEMS]] if type(value) in (list, tuple) else []


def _derived(given: Arguments, named: Named) -> Iterator[Any]:
    first, *rest = given or (None,)
    if callable(first) and rest:
        calls = (first, lambda *values: list(map(first, *values)), lambda *values: list(filter(first, *values)))  # type: ignore
        yield from (_answer(call, rest, {}) for call in calls)
    for value in (*given, *named.values()):
        if type(value) in PLAIN:
            yield from (_answer(builtin, [value], {}) for builtin in BUILTINS)


def _answer(function: Callable[..., Any], args: Iterable[Any], kwargs: Named) -> Any:
    try:
        return _items(function(*args, **kwargs))
    except Exception:
        return NO_ANSWER


def _is_documented(result: Any, given: Arguments, named: Named) -> bool:
    shown = [_text(value) for value in given] + [f"{name}={_text(value)}" for name, value in named.items()]
    wants = [want for start in (0, 1) for want in DOCUMENTED.get(bare(", ".join(shown[start:])), ())]
    return bool(wants) and (bare(_text(result)) in wants or bare(str(result)) in wants)


def _text(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return "?"


def bare(text: str) -> str:
    """Without what differs between writers."""
    return text.replace("'", '"').replace(" ", "").rstrip(")")


def _is_guessed(result: Any, given: Arguments, named: Named) -> bool:
    """Whether the answers of this test could have been guessed so far."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    guesses = _seen.guesses.setdefault(test, {})
    guesses[_text((given, named))] = bool(result)
    return len(guesses) <= MAX_GUESSES or len(set(guesses.values())) == 1


def _of_neighbours(function: Callable[..., Any], given: Arguments, named: Named) -> Iterator[Any]:
    if threading.current_thread() is not threading.main_thread():
        return  # no other one may set a timer
    is_method = given and "." in function.__qualname__
    owner = vars(type(given[0])) if is_method else function.__globals__
    signal.signal(signal.SIGVTALRM, _stop)
    for neighbour in [value for value in owner.values() if inspect.isfunction(value)]:
        if neighbour.__name__ == function.__name__ or hasattr(neighbour, "is_judged"):
            continue
        if _seen.neighbours_s > NEIGHBOURS_S:
            return
        started = time.process_time()
        # By processor time: the run's own alarm is by the clock.
        signal.setitimer(signal.ITIMER_VIRTUAL, ONE_NEIGHBOUR_S)
        try:
            args, kwargs = _copied((given, named)) or ((), {})
            value = _answer(neighbour, args, kwargs)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        _seen.neighbours_s += time.process_time() - started
        yield value


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeoutError
