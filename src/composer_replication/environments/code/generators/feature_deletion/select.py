"""Which symbols make a feature, at three grains, with what cannot work left out before anything is run.

- symbol: a public function, method or class with the private helpers that only it uses;
- cluster: symbols that only one test file, test class or community of tests exercises, joined by their calls;
- cross-module: a symbol with what it calls in other files, two or three clusters of which one calls the other, or a
  whole file.

Reads the coverage map and the source index. What runs at import cannot be emptied; what other code needs at import, in
`conftest.py`, by inheritance or through a cache cannot be a feature at all: its tests are not those that would break.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ...tasks.repository import CoverageMap
from ...tasks.symbols import Definition, SourceIndex, is_special
from ...tasks.task import Grain, Symbol
from ...tasks.test_ids import test_function
from .import_time import ImportGraph, Target

MIN_TESTS: dict[Grain, int] = {"symbol": 3, "cluster": 5, "cross-module": 5}
MIN_BODY_LINES: dict[Grain, int] = {"symbol": 4, "cluster": 15, "cross-module": 15}
MAX_BODY_LINES = 1500
MAX_SHARE: dict[Grain, float] = {"symbol": 0.4, "cluster": 0.6, "cross-module": 0.6}
MIN_GUARDS = 5
ENTERED_BY_SYNTAX = frozenset(
    "__init__ __call__ __enter__ __exit__ __iter__ __next__ __getitem__ __setitem__ __delitem__ __contains__ __len__ "
    "__add__ __sub__ __mul__ __or__ __and__ __xor__ __missing__ __reversed__".split()
)
"""Special methods that may be emptied along with a cluster; the others run behind the scenes of unrelated code."""
CACHES = ("cache", "memo", "lazy", "once", "singleton")
PLACEHOLDERS = ("abstractmethod", "abstractproperty", "overload")


class Links:
    """Which definitions belong together: one uses the other, or both are methods that use the same attribute of `self`.
    A method that is called on another object counts where no other definition has its name."""

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


@dataclass(frozen=True)
class Feature:
    """Symbols that go together, and the tests that run them."""

    name: str
    grain: Grain
    symbols: tuple[Symbol, ...]
    tests: frozenset[str]
    whole_files: bool = False


class Selector:
    """Chooses for one family of modes: `removing` ones take definitions away, the others empty functions."""

    def __init__(self, index: SourceIndex, graph: ImportGraph, coverage: CoverageMap, *, removing: bool) -> None:
        self.index, self.graph, self.coverage, self.removing = index, graph, coverage, removing
        self.links = Links(index, graph)

    def features(self, grain: Grain, seed: int) -> list[Feature]:
        """Without repeats, in a fixed order."""
        if grain == "symbol":
            found = self._symbols()
        elif grain == "cluster":
            found = itertools.chain(self._clusters(), self._communities(seed))
        else:
            found = itertools.chain(self._chains(), self._unions(seed), self._files() if self.removing else ())
        kept: dict[tuple[tuple[Symbol, ...], bool], Feature] = {}
        for feature in filter(self._is_sized, found):
            kept.setdefault((feature.symbols, feature.whole_files), feature)
        return list(kept.values())

    def tests_of(self, symbol: Symbol) -> frozenset[str]:
        return self._tests.get(symbol, frozenset())

    @cached_property
    def _tests(self) -> dict[Symbol, frozenset[str]]:
        tests = dict(self.coverage.by_symbol)
        for symbol, definitions in self.index.definitions.items():
            if definitions[0].kind == "class":
                members = (tests.get(member.symbol, frozenset()) for member in self.index.class_members(symbol))
                tests[symbol] = frozenset[str]().union(*members)
        return tests

    @cached_property
    def _eligible(self) -> dict[Symbol, Definition]:
        """In the order of the source."""
        suits = self._can_go if self.removing else self._can_be_emptied
        return {
            symbol: definitions[0]
            for symbol, definitions in self.index.definitions.items()
            if self.tests_of(symbol) and self._is_ordinary(definitions) and suits(definitions)
        }

    def _is_ordinary(self, definitions: tuple[Definition, ...]) -> bool:
        definition = definitions[0]
        name = definition.short_name
        if name in self.index.mentioned_by_configuration or definition.symbol.name.startswith("test_"):
            return False
        words = [word.rpartition(".")[2].lower() for each in definitions for word in each.decorators]
        return not any(word in PLACEHOLDERS or any(sign in word for sign in CACHES) for word in words)

    def _can_be_emptied(self, definitions: tuple[Definition, ...]) -> bool:
        definition = definitions[0]
        return (
            definition.kind != "class"
            and len(definitions) == 1
            and definition.symbol not in self.coverage.import_time
            and definition.body_lines > 0
            and (not is_special(definition.short_name) or definition.short_name in ENTERED_BY_SYNTAX)
        )

    def _can_go(self, definitions: tuple[Definition, ...]) -> bool:
        definition = definitions[0]
        name = definition.short_name
        if definition.kind == "method":
            bases = [ast.unparse(base) for base in definition.owner.bases] if definition.owner else []
            return not is_special(name) and all(base == "object" for base in bases)
        needed = self.index.mentioned_by.get(name, frozenset()) & self.coverage.import_time
        return (
            "." not in definition.symbol.name
            and not hasattr(builtins, name)
            and not is_special(name)
            and not needed - self._members([definition.symbol])
        )

    def _symbols(self) -> Iterator[Feature]:
        for symbol, definition in self._eligible.items():
            if not _is_private(symbol.name) and definition.body_lines >= MIN_BODY_LINES["symbol"]:
                yield self._feature(symbol.name, "symbol", self._with_helpers(symbol))

    def _with_helpers(self, symbol: Symbol) -> set[Symbol]:
        """Private helpers join while only the feature names them and only its tests run them."""
        chosen, tests = set[Symbol](), self.tests_of(symbol)
        chosen.add(symbol)
        grew = True
        while grew:
            grew = False
            inside = chosen | self._members(chosen)
            named = {name for each in inside for name in self.index.definitions[each][0].mentions}
            for helper, definition in self._eligible.items():
                name = definition.short_name
                if helper in inside or name not in named or not name.startswith("_") or is_special(name):
                    continue
                only_here = self.index.mentioned_by.get(name, frozenset()) <= inside
                if only_here and name not in self.index.mentioned_at_import and self.tests_of(helper) <= tests:
                    chosen.add(helper)
                    grew = True
        return chosen

    def _members(self, symbols: Iterable[Symbol]) -> set[Symbol]:
        return set[Symbol]().union(*([each.symbol for each in self.index.class_members(one)] for one in symbols))

    def _clusters(self) -> Iterator[Feature]:
        """Symbols that one test class exercises alone, then those of one test file."""
        for depth in (2, 1):
            groups: dict[str, set[Symbol]] = {}
            for symbol in self._eligible:
                places = {"::".join(test.split("::")[:depth]) for test in map(test_function, self.tests_of(symbol))}
                if len(places) == 1 and (depth == 1 or any(test.count("::") > 1 for test in self.tests_of(symbol))):
                    groups.setdefault(places.pop(), set()).add(symbol)
            for place, symbols in groups.items():
                yield from self._joined(place, symbols)

    def _communities(self, seed: int) -> Iterator[Feature]:
        """Groups of symbols and tests that touch each other more than the rest (Louvain on the two-sided graph)."""
        import networkx

        graph: networkx.Graph[object] = networkx.Graph()
        for symbol in self._eligible:
            graph.add_edges_from((symbol, test) for test in sorted(set(map(test_function, self.tests_of(symbol)))))
        if not self._eligible:
            return
        for community in networkx.community.louvain_communities(graph, seed=seed):
            symbols = [each for each in community if isinstance(each, Symbol)]
            inside = [each for each in symbols if set(map(test_function, self.tests_of(each))) <= community]
            yield from self._joined("community", inside)

    def _joined(self, name: str, symbols: Iterable[Symbol]) -> Iterator[Feature]:
        """That the same tests run them does not make one feature of symbols: they must have to do with each other."""
        order = {symbol: place for place, symbol in enumerate(self._eligible)}
        for group in self.links.groups(sorted(symbols, key=order.__getitem__)):
            yield self._feature(f"{name} of {group[0].name}", "cluster", group)

    def _chains(self) -> Iterator[Feature]:
        """A public symbol with all that it calls, in other files too, and that only its tests run."""
        for symbol in self._eligible:
            if _is_private(symbol.name):
                continue
            chosen, tests = self._with_helpers(symbol), self.tests_of(symbol)
            waiting = list(chosen)
            while waiting:
                called = self.links.uses(waiting.pop()) & self._eligible.keys() - chosen
                new = frozenset(each for each in called if self.tests_of(each) <= tests)
                chosen |= new
                waiting += new
            if len({each.file for each in chosen}) > 1:
                yield self._feature(f"{symbol.name} across files", "cross-module", chosen)

    def _unions(self, seed: int) -> Iterator[Feature]:
        clusters = [each for each in self.features("cluster", seed) if not each.name.startswith("community")]
        random.Random(seed).shuffle(clusters)
        connected = [pair for pair in itertools.combinations(clusters, 2) if self._are_connected(*pair)]
        for one, other in connected[: 2 * len(clusters)]:
            yield self._union((one, other))
            third = next((each for each in clusters if self._are_connected(other, each) and each is not one), None)
            if third is not None:
                yield self._union((one, other, third))

    def _union(self, parts: tuple[Feature, ...]) -> Feature:
        name = " + ".join(part.name for part in parts)
        return self._feature(name, "cross-module", itertools.chain.from_iterable(part.symbols for part in parts))

    def _are_connected(self, one: Feature, other: Feature) -> bool:
        """By a call from a file of one to a file of the other."""
        return any(
            self.links.are_joined(mine, theirs)
            for mine in one.symbols
            for theirs in other.symbols
            if mine.file != theirs.file
        )

    def _files(self) -> Iterator[Feature]:
        for path, module in self.index.sources.items():
            name = path.rpartition("/")[2]
            if name in ("__init__.py", "__main__.py", "conftest.py"):
                continue
            shared = any(each.short_name in self.index.mentioned_by_configuration for each in module.definitions)
            symbols = [each.symbol for each in module.definitions if "." not in each.symbol.name]
            if symbols and not shared:
                feature = self._feature(path, "cross-module", symbols)
                yield Feature(path, feature.grain, feature.symbols, feature.tests, whole_files=True)

    def _feature(self, name: str, grain: Grain, symbols: Iterable[Symbol]) -> Feature:
        """A method goes with its class where the class goes."""
        chosen = set(symbols)
        if self.removing:
            chosen -= self._members(chosen)
        ordered = tuple(symbol for symbol in self.index.definitions if symbol in chosen)
        tests = frozenset[str]().union(*(self.tests_of(symbol) for symbol in ordered))
        return Feature(name, grain, ordered, tests)

    def _is_sized(self, feature: Feature) -> bool:
        lines = sum(self.index.definitions[symbol][0].body_lines for symbol in feature.symbols)
        several = len({symbol.file for symbol in feature.symbols}) > 1 or feature.whole_files
        return (
            MIN_BODY_LINES["cluster" if feature.whole_files else feature.grain] <= lines <= MAX_BODY_LINES
            and len(feature.tests) >= MIN_TESTS[feature.grain]
            and leaves_guards(feature.tests, feature.grain, self.coverage)
            and (feature.grain != "cross-module" or several)
            and (feature.grain != "cluster" or len(feature.symbols) > 1)
        )


def leaves_guards(failing: frozenset[str], grain: Grain, coverage: CoverageMap) -> bool:
    """Whether enough of the suite stays green, tests that share a function with a failing one not counted."""
    functions = set(map(test_function, failing))
    guards = sum(test_function(test) not in functions for test in coverage.passing)
    return len(failing) <= MAX_SHARE[grain] * len(coverage.passing) and guards >= MIN_GUARDS


def _is_private(name: str) -> bool:
    """Special ones too."""
    return any(part.startswith("_") for part in name.split("."))
