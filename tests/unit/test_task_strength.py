"""Lazy solutions and dropped statements: exact texts, and nothing else of the file touched."""

import ast

from composer_replication.environments.code.certificates.strength import dropped_statements, lazy_solutions
from composer_replication.environments.code.tasks.task import Symbol

SOURCE = '''\
# é counts two bytes
import functools

class Box:
    """Documented."""
    size = 1

    @functools.cache
    def grow(self, by, *more):
        """Doc."""
        if by > 0:
            by += 1
        elif by < 0:
            return "ü"
        return by

    def keep(self): return 3

def bare(): return "ö"; pass
async def wait(*, first=1):
    return first
def documented():
    """Only this."""
'''
FILE = "box.py"


def lazy(*names):
    symbols = [Symbol(file=FILE, name=name) for name in names]
    return {kind: texts[FILE] for kind, texts in lazy_solutions({FILE: SOURCE}, symbols)}


def test_each_kind_replaces_the_body_and_keeps_the_docstring():
    found = lazy("Box.grow")
    old = SOURCE[SOURCE.index("        if by > 0") : SOURCE.index("\n    def keep")]
    bodies = {
        "none": "return None",
        "first_argument": "return by",
        "constant": "return True",
        "raise": "raise NotImplementedError",
    }
    assert found == {kind: SOURCE.replace(old, f"        {body}\n") for kind, body in bodies.items()}


def test_questions_are_also_answered_by_whether_there_is_anything():
    head = "def is_near(x, y):\n    if x is None:\n        return False\n"
    source = f"{head}    return abs(x - y) < 1\n\n\ndef near(x):\n    return x\n"
    symbols = [Symbol(file=FILE, name="is_near"), Symbol(file=FILE, name="near")]
    found = {kind: texts[FILE] for kind, texts in lazy_solutions({FILE: source}, symbols)}
    assert found["truth"] == "def is_near(x, y):\n    return bool(x)\n\n\ndef near(x):\n    return bool(x)\n"
    assert "return not x" in found["denial"]
    assert not {"truth", "denial"} & {kind for kind, _ in lazy_solutions({FILE: source}, symbols[1:])}


def test_one_line_functions_and_functions_without_arguments():
    assert lazy("bare")["first_argument"] == SOURCE.replace('return "ö"; pass', "return None")
    assert lazy("wait")["constant"] == SOURCE.replace("return first", "return True")
    assert lazy("documented")["none"] == SOURCE.replace('"""Only this."""', "return None")


def test_a_class_means_all_its_methods():
    assert lazy("Box")["none"] == lazy("Box.grow", "Box.keep")["none"]
    assert "return 3" not in lazy("Box")["none"] and "size = 1" in lazy("Box")["none"]


def test_a_name_of_another_file_changes_nothing():
    symbols = [Symbol(file="other.py", name="bare")]
    assert all(texts == {FILE: SOURCE} for _, texts in lazy_solutions({FILE: SOURCE}, symbols))


def dropped(limit=100, seed=0):
    return [
        texts[FILE] for texts in dropped_statements({FILE: SOURCE}, [Symbol(file=FILE, name="Box.grow")], limit, seed)
    ]


def test_each_statement_is_dropped_once():
    found = dropped()
    assert SOURCE.replace("by += 1", "pass") in found
    assert SOURCE.replace('return "ü"', "pass") in found
    assert SOURCE.replace("        return by\n", "        pass\n") in found
    assert len(found) == len(set(found)) == 4
    for text in found:
        ast.parse(text)


def test_a_sample_is_the_same_for_the_same_seed():
    assert dropped(2, 1) == dropped(2, 1) and len(dropped(2, 1)) == 2
    assert {tuple(dropped(2, seed)) for seed in range(8)} != {tuple(dropped(2, 0))}


def test_only_statements_of_the_change_are_dropped():
    sources = {"a.py": "def f(x):\n    x = x + 1\n    x = x * 2\n    return x\n"}
    symbols = [Symbol(file="a.py", name="f")]
    assert len(dropped_statements(sources, symbols, 12, 0)) == 3
    assert dropped_statements(sources, symbols, 12, 0, {"a.py": {3}}) == [
        {"a.py": "def f(x):\n    x = x + 1\n    pass\n    return x\n"}
    ]


def test_a_neighbour_with_the_same_arguments_answers():
    source = """
def lru(size, *names, typed=False): return 1
def lfu(size, *names, typed=False): return 2
def fifo(size): return 3
"""
    found = dict(lazy_solutions({FILE: source}, [Symbol(file=FILE, name="lfu")]))
    assert found["neighbour_0"][FILE] == source.replace("return 2", "return lru(size, *names, typed=typed)")
    assert "neighbour_1" not in found
    assert not any("neighbour" in kind for kind, _ in lazy_solutions({FILE: source}, [Symbol(file=FILE, name="fifo")]))
