"""Which definitions belong together: one uses the other, or both are methods that use the same attribute of `self`.

Reads the source index and the import graph. A method that is called on another object is only known by its name, and
counts where no other definition has that name.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator

from ...tasks.symbols import Definition, SourceIndex
from ...tasks.task import Symbol
from .import_time import ImportGraph, Target


class Links:
    def __init__(self, index: SourceIndex, graph: ImportGraph) -> None:
        self.index, self.graph = index, graph
        self._by_short_name: dict[str, list[Symbol]] = {}
        for symbol, definitions in index.definitions.items():
            self._by_short_name.setdefault(definitions[0].short_name, []).append(symbol)
        self._uses: dict[Symbol, frozenset[Symbol]] = {}
        self._imported = {
            (name.importer, name.bound): origin for origin, names in graph.importers.items() for name in names
        }

    def uses(self, symbol: Symbol) -> frozenset[Symbol]:
        """What the source of a function, method or class names of the package."""
        if symbol not in self._uses:
            self._uses[symbol] = frozenset(self._named(self.index.definitions[symbol][0])) - frozenset((symbol,))
        return self._uses[symbol]

    def are_joined(self, one: Symbol, other: Symbol) -> bool:
        return other in self.uses(one) or one in self.uses(other) or bool(self._state(one) & self._state(other))

    def groups(self, symbols: Collection[Symbol]) -> list[list[Symbol]]:
        """Joined with each other, directly or through others of the collection; in the given order."""
        left, found = list(symbols), list[list[Symbol]]()
        while left:
            group = [left.pop(0)]
            for member in group:
                joined = [each for each in left if self.are_joined(member, each)]
                group += joined
                left = [each for each in left if each not in joined]
            order = {symbol: place for place, symbol in enumerate(symbols)}
            found.append(sorted(group, key=order.__getitem__))
        return found

    def _named(self, definition: Definition) -> Iterator[Symbol]:
        for reference in self.graph.references(definition):
            path, name = self._origin(reference.target)
            yield Symbol(file=path, name=name)
        for name in definition.mentions:
            found = self._by_short_name.get(name, [])
            own = [each for each in found if _owner(each) == _owner(definition.symbol) != ("", "")]
            methods = [each for each in found if "." in each.name]
            yield from own or (methods if len(found) == 1 else ())

    def _origin(self, target: Target) -> Target:
        """Where a name was defined that one module after another has imported."""
        passed = set[Target]()
        while target in self._imported and target not in passed:
            passed.add(target)
            target = self._imported[target]
        return target

    def _state(self, symbol: Symbol) -> frozenset[tuple[str, str, str]]:
        """Attributes that a method reads or writes on itself, with its class; methods of the class left out."""
        definition = self.index.definitions[symbol][0]
        if definition.kind != "method":
            return frozenset()
        counted = Counter(
            node.attr
            for node in ast.walk(definition.node)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        )
        owner = _owner(symbol)
        return frozenset((*owner, name) for name in counted if name not in self._by_short_name)


def _owner(symbol: Symbol) -> tuple[str, str]:
    """File and class of a method; empty for what stands on its own."""
    owner = symbol.name.rpartition(".")[0]
    return (symbol.file, owner) if owner else ("", "")
