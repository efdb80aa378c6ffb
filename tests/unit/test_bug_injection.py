"""Every operator makes the bug that it says, touches nothing else, and never describes where."""

from __future__ import annotations

import ast
import textwrap
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.environments.code.generators.bug_injection.generate import BUGS_PER_FUNCTION, propose
from composer_replication.environments.code.generators.bug_injection.operators import OPERATORS, mutations
from composer_replication.environments.code.generators.bug_injection.source import read_source
from composer_replication.environments.code.generators.kinds import GeneratorSettings, find_generator
from composer_replication.environments.code.tasks.repository import CoverageMap, Repository
from composer_replication.environments.code.tasks.task import Symbol
from composer_replication.syntax import Splice

IF_ELSE = "if a:\n    b = 1\nelse:\n    b = 2\nreturn b"
GUARDED = "try:\n    a = f(b)\n    b = a\nexcept ValueError:\n    a = 0\nreturn a"
CASES: dict[str, dict[str, str]] = {
    "flip_comparison": {
        "return a < b": "return a > b",
        "return a is None": "return a is not None",
        "return (a) in (b)": "return (a) not in (b)",
    },
    "off_by_one": {
        "return a <= b": "return a < b",
        "return a[0]": "return a[1]",
        "return a[1:]": "return a[2:]",
        "return range(3, a)": "return range(4, a)",
    },
    "drop_branch": {IF_ELSE: "if a:\n    b = 1\nreturn b", "if a:\n    b = 1\nreturn b": "return b"},
    "remove_early_return": {"if a:\n    return b  # why\nreturn a": "return a"},
    "invert_condition": {
        "return a if b else 0": "return a if not b else 0",
        "return [i for i in a if not i]": "return [i for i in a if i]",
        "if a > b:\n    a = b\nreturn a": "if not (a > b):\n    a = b\nreturn a",
    },
    "change_operator": {
        "return a + b": "return a - b",
        "return a and b": "return a or b",
        "a += b\nreturn a": "a -= b\nreturn a",
    },
    "swap_operands": {"return a - b * 2": "return b * 2 - a"},
    "swap_arguments": {"return f(a, b)": "return f(b, a)"},
    "drop_keyword": {"return f(a, key=b)": "return f(a)", "return f(x=a, key=b)": "return f(x=a)"},
    "mutate_constant": {
        "return a * 3": "return a * 4",
        "return True": "return False",
        "return 'x'": "return 'x '",
    },
    "drop_exception_handling": {GUARDED: "a = f(b)\nb = a\nreturn a"},
    "forget_sum": {"for i in b:\n    a += i\nreturn a": "for i in b:\n    a = i\nreturn a"},
}


def function(body: str) -> str:
    return "# é before\ndef f(a, b):\n    '''Doc: 3 < 4.'''\n" + textwrap.indent(body, "    ") + "\n\n\nAFTER = 1\n"


def all_mutations(text: str, operator: str) -> list[str]:
    source = read_source(text)
    assert source is not None
    return [changed for node in source.functions.values() for _, changed in mutations(source, node, operator)]


@pytest.mark.parametrize(
    ("operator", "before", "after"), [(name, *case) for name, cases in CASES.items() for case in cases.items()]
)
def test_an_operator_changes_what_it_says_and_nothing_else(operator: str, before: str, after: str):
    assert function(after) in all_mutations(function(before), operator)


def test_every_operator_has_a_case_and_there_are_more_than_eight():
    assert set(OPERATORS) == set(CASES) | {"wrong_default"}
    assert len(OPERATORS) >= 10


def test_defaults_change_in_the_signature_alone():
    text = "def f(a, b=1, *, c=None, d='x'):\n    return a\n"
    assert all_mutations(text, "wrong_default") == [
        text.replace("b=1", "b=2"), text.replace("c=None", "c=0"), text.replace("d='x'", "d='x '")
    ]  # fmt: skip


@pytest.mark.parametrize("operator", list(OPERATORS))
def test_docstrings_annotations_decorators_and_loops_without_end_are_left_alone(operator: str):
    text = (
        "@cache(1 + 2)\ndef f(a: 'int < 3', b):\n    '''1 < 2'''\n    x: Literal[3]\n"
        "    while a < b:\n        a += g(a, b)\n    return f'{a < b}'\n"
    )
    assert all_mutations(text, operator) == []


def test_a_splice_without_effect_is_no_bug():
    assert all_mutations("def f(a, b):\n    return (a  # <\n            < b)\n", "flip_comparison") == []
    assert all_mutations("def f(a, b):\n    return (a <  # <\n            b)\n", "flip_comparison") != []


def block(text: str) -> str:
    return textwrap.indent(text, "    ")


NAMES = st.sampled_from(["a", "b", "value", "größe"])
SIGNS = st.sampled_from(["+", "-", "<", ">=", "==", "and", "or", "in"])
EXPRESSIONS = st.recursive(
    st.one_of(NAMES, st.integers(0, 9).map(str), st.sampled_from(["'é'", "None", "True"])),
    lambda inner: st.one_of(
        st.tuples(inner, SIGNS, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"f({p[0]}, {p[1]}, key={p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[0]})"),
        inner.map(lambda p: f"value[{p}]"),
    ),
    max_leaves=6,
)
STATEMENTS = st.recursive(
    st.tuples(st.sampled_from(["a =", "a +=", "return"]), EXPRESSIONS).map(" ".join),
    lambda inner: st.one_of(
        st.tuples(EXPRESSIONS, inner).map(lambda p: f"if {p[0]}:\n{block(p[1])}"),
        st.tuples(EXPRESSIONS, inner, inner).map(lambda p: f"if {p[0]}:\n{block(p[1])}\nelse:  # é\n{block(p[2])}"),
        inner.map(lambda p: f"try:\n{block(p)}\nexcept ValueError:\n    pass"),
        st.tuples(inner, inner).map("\n".join),
    ),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None)
@given(body=STATEMENTS, operator=st.sampled_from(list(OPERATORS)))
def test_any_bug_parses_differs_and_keeps_what_is_around_the_function(body: str, operator: str):
    text = function(body)
    for changed in all_mutations(text, operator):
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
        assert changed.startswith("# é before\ndef f(a, b")
        assert changed.endswith("\n\n\nAFTER = 1\n")
        assert "    '''Doc: 3 < 4.'''\n" in changed


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    package = tmp_path / "src" / "small"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "text.py").write_text(
        textwrap.dedent(
            '''
            def windows(values, size=2):
                """Slide over the values."""
                if size < 1:
                    raise ValueError(size)
                return [values[i : i + size] for i in range(len(values) - size + 1)]


            class Reader:
                def lines(self, text, limit=10):
                    if not text:
                        return []
                    return text.split("\\n", limit)


            def rare(a):
                return a + 1
            '''
        )
    )
    return Repository(
        "small", tmp_path, ("small",), ("src",), ("src/small/__init__.py", "src/small/text.py"), (), "MIT"
    )


def coverage_of(**tests: int) -> CoverageMap:
    by_symbol = {
        Symbol(file="src/small/text.py", name=name.replace("__", ".")): frozenset(
            f"tests/test_t.py::test_{name}_{number}" for number in range(count)
        )
        for name, count in tests.items()
    }
    passing = frozenset().union(*by_symbol.values()) | {f"tests/test_u.py::test_{i}" for i in range(40)}
    return CoverageMap(passing=passing, unstable=frozenset(), by_symbol=by_symbol, import_time=frozenset(), suite_s=0.1)


def test_candidates_go_to_tested_functions_with_their_tests(repository: Repository):
    coverage = coverage_of(windows=8, Reader__lines=6, rare=1)
    found = list(propose(repository, coverage, GeneratorSettings(limit=100)))
    assert {one.symbols[0].name for one in found} == {"windows", "Reader.lines"}
    assert len({(one.name, one.mode) for one in found}) == len(found)
    assert all(
        len([one for one in found if one.symbols[0].name == name]) <= BUGS_PER_FUNCTION
        for name in ("windows", "Reader.lines")
    )
    for one in found:
        assert one.generator == "bug_injection"
        assert one.expected_failing == coverage.by_symbol[one.symbols[0]]
        assert set(one.edits) == {"src/small/text.py"}
        assert one.edits["src/small/text.py"] != (repository.tree / "src/small/text.py").read_text()
        assert one.editable == ("src/small/*.py",)


def test_functions_that_run_at_import_and_those_that_everything_runs_are_left_out(repository: Repository):
    coverage = coverage_of(windows=8, Reader__lines=200)
    assert {one.symbols[0].name for one in propose(repository, coverage, GeneratorSettings())} == {"windows"}
    at_import = CoverageMap(**{**vars(coverage), "import_time": frozenset(coverage.by_symbol)})
    assert list(propose(repository, at_import, GeneratorSettings())) == []


def test_the_same_seed_proposes_the_same_and_another_something_else(repository: Repository):
    coverage = coverage_of(windows=8, Reader__lines=6)
    first, again, other = (
        [one.edits for one in propose(repository, coverage, GeneratorSettings(seed=seed))] for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_limit_and_modes_are_kept(repository: Repository):
    coverage = coverage_of(windows=8, Reader__lines=6)
    assert len(list(propose(repository, coverage, GeneratorSettings(limit=3)))) == 3
    only = list(propose(repository, coverage, GeneratorSettings(modes=("wrong_default",))))
    assert only
    assert {one.mode for one in only} == {"wrong_default"}


def test_a_statement_tells_less_at_each_level_and_never_the_line_or_the_change(repository: Repository):
    for one in propose(repository, coverage_of(windows=8), GeneratorSettings()):
        lengths = [len(one.statement[level]) for level in ("L0", "L1", "L2", "L3")]
        assert lengths == sorted(lengths, reverse=True)
        assert "windows" in one.statement["L1"]
        assert "windows" not in one.statement["L2"]
        assert "text.py" not in one.statement["L3"]
        original = (repository.tree / "src/small/text.py").read_text().splitlines()
        changed = (one.edits["src/small/text.py"] or "").splitlines()
        lines = {line.strip() for line in set(original) ^ set(changed) if line.strip()}
        for text in one.statement.values():
            assert not any(line in text for line in lines)
            assert one.mode not in text
            assert "line" not in text


def test_the_generator_is_found_by_name(repository: Repository):
    generator = find_generator("bug_injection")
    assert len(list(islice(generator(repository, coverage_of(windows=8), GeneratorSettings()), 2))) == 2


SEVERAL_BLOCKS = """import os; LIMIT = 0.0
@staticmethod
def first(a):
    return a + 1  # one
TEXT = '''
def no_function(): pass
'''
def last(a):
    return a
"""


@pytest.mark.parametrize(
    ("old", "new", "is_change"),
    [
        ("a + 1", "a - 1", True),
        ("a + 1", "a +  1", False),
        ("# one", "# two", False),
        ("LIMIT = 0.0", "LIMIT = -0.0", True),
        ("LIMIT = 0.0", "LIMIT = 0", True),
        ("@staticmethod", "@classmethod", True),
        ("def no_function", "def no_thing", True),
        ("    return a\n", "", False),
        ("return a + 1", "return (a + 1", False),
        ("def last(a):\n    return a\n", "", True),
    ],
)
def test_a_change_is_told_from_none_by_its_own_block(old, new, is_change):
    source = read_source(SEVERAL_BLOCKS)
    start = source.content.index(old.encode())
    expected = SEVERAL_BLOCKS.encode()[:start] + new.encode() + SEVERAL_BLOCKS.encode()[start + len(old) :]
    found = source.apply(Splice(start, start + len(old), new.encode()))
    assert found == (expected.decode() if is_change else None)
