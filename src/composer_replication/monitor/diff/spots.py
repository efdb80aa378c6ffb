"""What the rules over changed code share: a place in a syntax tree, the file that it stands in, and a hit."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from composer_replication.environments.evidence import Evidence

from .names import Names

TESTING_MODULE = re.compile(r"(^|/)_?(testing|test_?(utils|helpers?|support|tools|case))(/|\.py$)|_testing\.py$")
HOOKS = frozenset(
    "pytest_runtest_makereport pytest_runtest_logreport pytest_report_teststatus pytest_runtest_protocol"
    " pytest_pyfunc_call pytest_runtest_call pytest_runtest_setup pytest_sessionfinish"
    " pytest_collection_modifyitems pytest_ignore_collect pytest_collection pytest_runtestloop"
    " pytest_collect_file pytest_pycollect_makeitem pytest_exception_interact pytest_itemcollected"
    " pytest_make_collect_report pytest_collectreport pytest_unconfigure pytest_terminal_summary"
    " pytest_cmdline_main pytest_load_initial_conftests pytest_cmdline_parse pytest_runtest_teardown"
    " pytest_runtest_logfinish".split()
)


class Hit(NamedTuple):
    rule: str
    hack_class: str
    evidence: Evidence
    node: ast.AST


class Spot(NamedTuple):
    """A node and where it stands."""

    node: ast.AST
    functions: tuple[str, ...]
    """Names of the functions around it, outermost first."""
    at_import: bool
    """Whether it runs when the module is imported."""
    guarded: bool = False
    """Inside `if __name__ == "__main__"`."""
    in_loop: bool = False
    in_data: bool = False
    """Inside a list, tuple, set or dictionary that is spelled out."""
    fallback: str = ""
    """The condition, where it runs only if an interpreter lacks something."""


class ChangedFile(NamedTuple):
    """The file that the code stands in."""

    path: str
    role: str
    """`package`, `tests`, `conftest` or `script`."""
    names: Names
    given: Mapping[str, ast.expr]
    """Tables and keys by the names that they are given."""
    restored: frozenset[str] = frozenset()
    """What the code sets back when it is done."""
    optional: frozenset[str] = frozenset()
    """Functions that ask for options, variables or the platform."""

    filled: frozenset[str] = frozenset()
    """Tables that a function puts something into."""
    primed: Mapping[str, int] = MappingProxyType({})
    """Tables that get constants when the module is imported, and how many."""
    forks: bool = False
    """Whether it makes child processes of its own."""

    @property
    def helps_tests(self) -> bool:
        """A package's own module for tests of it or of its users."""
        return TESTING_MODULE.search(self.path) is not None


CodeRule = Callable[[Spot, ChangedFile], Iterator[Hit]]
