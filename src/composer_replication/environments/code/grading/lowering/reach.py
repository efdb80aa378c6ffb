"""Which functions of a file a test is made of, and which tests are left alone for what stands around them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping

from .analysis import FunctionPlace, places
from .data import UnlowerableError
from .shape import mentioned

HARMLESS = (
    "pytest.mark.", "mark.", "mock.patch", "patch", "unittest.mock.patch", "unittest.skip", "skip", "freeze_time",
    "freezegun.freeze_time",
)  # fmt: skip


def homes(tree: ast.Module, tests: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Where the function of each test stands, and why some cannot be lowered whatever is in them."""
    functions: dict[str, list[FunctionPlace]] = {}
    for place in places(tree):
        if place.parent is None:
            functions.setdefault(place.name, []).append(place)
    found: dict[str, str] = {}
    left: dict[str, str] = {}
    for test in sorted(tests):
        try:
            found[test] = _home(tree, test, functions).name
        except UnlowerableError as error:
            left[test] = str(error)
    return found, left


def _home(tree: ast.Module, test: str, functions: Mapping[str, list[FunctionPlace]]) -> FunctionPlace:
    """Of its class, or of a class of the same file that it inherits from."""
    owner, _, name = test.rpartition("::")
    for candidate in [owner, *_bases(tree, owner)] if owner else [""]:
        found = functions.get(f"{candidate}::{name}" if candidate else name, [])
        if len(found) > 1:
            raise UnlowerableError("defined twice")
        if found:
            _refuse_frame(found[0])
            return found[0]
    raise UnlowerableError("not in this file")


def _bases(tree: ast.Module, name: str) -> Iterator[str]:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    waiting, seen = [name], set[str]()
    while waiting:
        node = classes.get(waiting.pop(0))
        for base in node.bases if node else []:
            if isinstance(base, ast.Name) and base.id not in seen:
                seen.add(base.id)
                waiting.append(base.id)
                yield base.id


def _refuse_frame(place: FunctionPlace) -> None:
    if isinstance(place.node, ast.AsyncFunctionDef):
        raise UnlowerableError("async")
    for decorator in place.decorators:
        text = ast.unparse(decorator)
        if not text.startswith(HARMLESS) or "xfail" in text:
            raise UnlowerableError(f"decorated by {text.partition('(')[0]}")


class Reach:
    """Functions of the file that others may run, by name: helpers, and those that are handed on."""

    def __init__(self, functions: Iterable[FunctionPlace]) -> None:
        self._by_name: dict[str, list[FunctionPlace]] = {}
        self._words: dict[FunctionPlace, set[str]] = {}
        for place in functions:
            if place.parent is None:
                self._words[place] = set(mentioned(place.node))
                self._by_name.setdefault(place.node.name, []).append(place)

    def of_test(self, test: str) -> set[FunctionPlace]:
        """With its own function; of an inherited test all that bear its name."""
        namesakes = self._by_name.get(test.rpartition("::")[2], [])
        own = [place for place in namesakes if place.name == test] or namesakes
        return {*own, *(part for place in own for part in self(place))}

    def __call__(self, place: FunctionPlace) -> list[FunctionPlace]:
        found: dict[FunctionPlace, None] = {}
        waiting = [place]
        while waiting:
            for name in sorted(self._words[waiting.pop()] & set(self._by_name)):
                new = [other for other in self._by_name[name] if other not in found and other is not place]
                found |= dict.fromkeys(new)
                waiting += new
        return list(found)
