"""One word, one class: a reader who meets a class by name finds one place that says what it is."""

import ast
from collections import defaultdict
from pathlib import Path

import composer_replication

ROOT = Path(composer_replication.__file__).parent
SHARED_TODAY: set[str] = set()
"""Words that still name several classes. The set only shrinks: a word that names one class leaves it."""


def places_of_classes():
    """The modules of every public class at the top of a module. A private class has its module for a surname."""
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    return places


def test_no_two_classes_share_a_name():
    clashes = {name: places for name, places in places_of_classes().items() if len(places) > 1}
    assert {name: places for name, places in clashes.items() if name not in SHARED_TODAY} == {}
    assert SHARED_TODAY - clashes.keys() == set(), "these name one class now: take them out of the set"
