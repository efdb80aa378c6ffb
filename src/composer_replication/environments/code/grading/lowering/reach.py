"""Which functions of a file a test is made of, and which tests are left alone for what stands around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .analysis import Analysis, Place, places
from .data import UnlowerableError
from .shape import mentioned

HARMLESS = (
    "pytest.mark.", "mark.", "mock.patch", "patch", "unittest.mock.patch", "unittest.skip", "skip", "unittest.mock.patch",
)  # fmt: skip


def home(tree: ast.Module, test: str) -> Place:
    """The function of a test: of its class, or of a class of the same file that it inherits from."""
    functions: dict[str, list[Place]] = {}
    for place in places(tree):
        if place.parent is None:
            functions.setdefault(place.name, []).append(place)
    owner, _, name = test.rpartition("::")
    for candidate in [owner, *_bases(tree, owner)] if owner else [""]:
        found = functions.get(f"{candidate}::{name}" if candidate else name, [])
        if len(found) > 1:
            raise UnlowerableError("defined twice")
        if found:
            if isinstance(found[0].node, ast.AsyncFunctionDef):
                raise UnlowerableError("async")
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


def refuse_decorators(place: Place) -> None:
    for decorator in place.decorators:
        text = ast.unparse(decorator)
        if not text.startswith(HARMLESS) or "xfail" in text:
            raise UnlowerableError(f"decorated by {text.partition('(')[0]}")


def reached(place: Place, analysis: Analysis) -> list[Place]:
    """Functions of the file that it may run, by name: helpers, and those that are handed on."""
    by_name: dict[str, list[Place]] = {}
    for other in analysis.places:
        if other.parent is None and other.name not in analysis.tests:
            by_name.setdefault(other.node.name, []).append(other)
    found: dict[Place, None] = {}
    waiting = [place]
    while waiting:
        for name in set(mentioned(waiting.pop().node)) & set(by_name):
            for other in by_name[name]:
                if other not in found and other is not place:
                    found[other] = None
                    waiting.append(other)
    return list(found)
