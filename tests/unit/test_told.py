"""What a hidden test asks beyond the statement is shown, or leaves the reward, or the task is rejected."""

import ast
import shutil
from dataclasses import replace

import pytest

from composer_replication.environments.code.certificates import told as telling
from composer_replication.environments.code.certificates.gates import Bench, Split
from composer_replication.environments.code.certificates.told import Demand, ShownBehaviour, enough_told, with_examples
from composer_replication.environments.code.certificates.variants import _choices, described, is_told, variants
from composer_replication.environments.code.episodes.visible_tests import shows_examples
from composer_replication.environments.code.generators.bug_injection.source import read_source
from composer_replication.environments.code.running.warm import TestSetup
from composer_replication.environments.code.tasks.repository import CoverageMap
from composer_replication.environments.code.tasks.task import Candidate, Rejected, Symbol
from tests.tiny_repository import tiny_repository

BODY = "    if kind == 'box':\n        return 'crate number seven'\n    return kind.title()\n"
LABEL = f'def label(kind):\n    """A label.\n\n    >>> label("tin")\n    \'Tin\'\n    """\n{BODY}'
TESTS = """import pytest
from shapes.labels import label


def test_label_of_a_box():
    assert label('box') == 'crate number seven'


@pytest.mark.parametrize('kind', ['tin', 'jar', 'bag'])
def test_label(kind):
    assert label(kind) == kind.capitalize()
"""
BOX = "tests/test_labels.py::test_label_of_a_box"
OTHERS = frozenset(f"tests/test_labels.py::test_label[{kind}]" for kind in ("tin", "jar", "bag"))
GUARDS = frozenset({"tests/test_words.py::test_shout"})


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    files = {"shapes/labels.py": LABEL, "tests/test_labels.py": TESTS}
    repository = tiny_repository(tmp_path_factory.mktemp("told"), files)
    coverage = CoverageMap(OTHERS | GUARDS | {BOX}, frozenset(), {}, frozenset(), 0.1)
    opened = Bench(repository, coverage, TestSetup())
    yield opened
    opened.close()


@pytest.fixture
def candidate():
    return Candidate(
        name="label",
        generator="feature_deletion",
        mode="stub",
        symbols=(Symbol(file="shapes/labels.py", name="label"),),
        edits={"shapes/labels.py": LABEL.replace(BODY, "    raise NotImplementedError\n")},
        expected_failing=OTHERS | {BOX},
        statement={"L0": "Write label.\n\n> >>> label(\"tin\")\n> 'Tin'\n"},
        editable=("shapes/*.py",),
        examples={BOX: "```python\ndef test_label_of_a_box():\n    assert label('box') == 'crate number seven'\n```"},
    )


@pytest.fixture
def split(candidate):
    return Split(OTHERS | {BOX}, GUARDS, candidate.edits)


def test_variants_are_of_what_nothing_tells(candidate, split, bench):
    literals = {each.literal for each in variants(candidate, split, bench, 0)} - {None}
    assert literals == {"box", "crate number seven"}
    told = replace(candidate, statement={"L0": "A 'box' is a 'crate number seven'."})
    assert {each.literal for each in variants(told, split, bench, 0)} == {None}


def test_a_neighbour_in_another_encoding_is_read_as_well_as_it_goes(candidate, split, bench, tmp_path):
    """Its text may tell a choice. It raised, which rejected every candidate of that folder as a fault of ours."""
    text = "# coding: latin-1\nCRATE = 'crate number seven', 'é'\n"
    tree = shutil.copytree(bench.repository.tree, tmp_path / "tree")
    (tree / "shapes/old.py").write_bytes(text.encode("latin-1"))
    repository = replace(bench.repository, tree=tree, source_files=(*bench.repository.source_files, "shapes/old.py"))
    old = Bench(repository, bench.coverage, bench.setup)
    assert {each.literal for each in variants(candidate, split, old, 0)} == {None, "box"}


def test_what_only_a_hidden_test_knows_is_shown(candidate, split, bench):
    told = enough_told(candidate, split, bench, 0)
    assert (told.hidden, told.examples, told.left_out) == (OTHERS, (BOX,), 0)
    statement = with_examples(candidate, told.examples).statement["L0"]
    assert statement.startswith(candidate.statement["L0"].rstrip()) and "test_label_of_a_box" in statement


def test_a_test_that_cannot_be_shown_leaves_the_reward(candidate, split, bench):
    told = enough_told(replace(candidate, examples={}), split, bench, 0)
    assert (told.hidden, told.examples, told.left_out) == (OTHERS, (), 1)


def test_too_few_fair_tests_reject_the_task(candidate, split, bench):
    few = replace(split, hidden=frozenset({BOX, min(OTHERS)}))
    with pytest.raises(Rejected, match="thin_statement") as raised:
        enough_told(replace(candidate, examples={}), few, bench, 0)
    assert "is told nowhere" in raised.value.detail


def test_a_shown_test_has_told_it_already(candidate, split, bench):
    shown = replace(candidate, shown_tests=frozenset({BOX}))
    told = enough_told(shown, replace(split, hidden=OTHERS), bench, 0)
    assert (told.hidden, told.examples) == (OTHERS, ())


def test_a_statement_that_is_complete_is_not_looked_at(candidate, split, bench):
    assert enough_told(replace(candidate, examples=None), split, bench, 0).hidden == split.hidden


def test_numbers_and_texts_in_what_can_be_read():
    assert is_told(100, "at most 100.") and not is_told(100, "1000 or 2100 or 100.5")
    assert is_told("a\n  b", "x a y\nz b") and not is_told("a side", "aside")


def test_examples_count_only_where_they_are_shown():
    assert shows_examples(">>> f(1)\n2\n", "> >>> f(1)\n> 2\n")
    assert not shows_examples(">>> f(1)\n2\n", "f does something") and not shows_examples("no example", "no example")


LOST = {"tests/test_labels.py": None}
"""The tests that are hidden are not in the agent's tree."""


def test_a_text_that_a_test_spells_out_needs_no_run(candidate, split, bench, monkeypatch):
    """Documented well enough for every wrong solution, but not for this message."""
    monkeypatch.setattr(telling, "_undecided", lambda *arguments: iter(()))
    hidden = replace(split, edits={**split.edits, **LOST})
    told = enough_told(candidate, hidden, bench, 0)
    assert (told.hidden, told.examples) == (OTHERS, (BOX,))
    said = replace(candidate, statement={"L0": "A 'box' is a 'crate number seven'."})
    assert enough_told(said, hidden, bench, 0).hidden == split.hidden


def test_a_solution_that_was_tried_already_tells_what_is_open(candidate, split, bench, monkeypatch):
    monkeypatch.setattr(telling, "variants", lambda *arguments: [])
    said = replace(candidate, statement={"L0": "A 'box' is a 'crate number seven'."}, examples={})
    trials = {"dropped_0": OTHERS | GUARDS, "dropped_1": GUARDS}
    told = enough_told(said, split, bench, 0, ShownBehaviour(), trials={"dropped_0": OTHERS | GUARDS})
    assert (told.hidden, told.left_out) == (OTHERS, 1)
    with pytest.raises(Rejected, match="thin_statement"):
        enough_told(said, split, bench, 0, ShownBehaviour(), trials)
    seen = enough_told(said, split, bench, 0, ShownBehaviour(OTHERS), trials={"dropped_1": GUARDS})
    assert seen.left_out == 0, "a shown test fails on it too"


def test_the_constants_of_a_removed_file_are_deleted_too(candidate, split, bench, monkeypatch):
    monkeypatch.setattr(telling, "_undecided", lambda *arguments: iter(()))
    whole = replace(candidate, edits={"shapes/labels.py": None}, symbols=())
    told = enough_told(whole, replace(split, edits={"shapes/labels.py": None, **LOST}), bench, 0)
    assert told.examples == (BOX,)


def names(count):
    return [f"tests/test_labels.py::test_{number}" for number in range(count)]


def shown_of(candidate, tests, demands, texts, **changes):
    examples = dict(zip(tests, texts, strict=True))
    asked = [Demand(f"fact {number}", frozenset(each), is_choice=False) for number, each in enumerate(demands)]
    wanting = replace(candidate, examples=examples, **changes)
    return telling._shown(wanting, Split(frozenset(tests), frozenset(), {}), asked)


def test_the_test_that_makes_most_others_fair_is_shown_first(candidate):
    tests = names(9)
    demands = [tests[:1], tests[1:2], tests[2:3], tests[3:4], tests[4:]]
    chosen, hidden = shown_of(candidate, tests, demands, ["text"] * 9)
    assert chosen[0] in tests[4:] and len(hidden) == 5, "half of them stay unseen"


def test_what_is_shown_has_a_limit_of_characters(candidate, monkeypatch):
    monkeypatch.setattr(telling, "MAX_SHOWN_CHARACTERS", 10)
    tests = names(12)
    chosen, _ = shown_of(candidate, tests, [tests[:1], tests[1:2], tests[2:3]], ["x" * 4] * 12)
    assert len(chosen) == 2


def test_without_a_docstring_as_many_tests_are_shown_as_may_be(candidate):
    tests = names(10)
    assert shown_of(candidate, tests, [], ["text"] * 10)[0] == ()
    assert len(shown_of(candidate, tests, [], ["text"] * 10, mode="stub-nodoc")[0]) == 5


TABLE = """def kinds(extra):
    found = {"tin": 1, "jar": 2}
    if extra:
        found.update({
            "bag": 3,
            **extra,
        })
    return found
"""


def test_an_entry_of_a_table_is_a_choice_too():
    source = read_source(TABLE)
    found = {ast.dump(ast.parse(text)) for text in _choices(source, source.functions["kinds"], None)}
    for gone in ('"tin": 1, ', '"jar": 2', '"bag": 3,\n            '):
        assert ast.dump(ast.parse(TABLE.replace(gone, ""))) in found


def test_choices_come_from_each_function_in_turn(candidate, split, bench, tmp_path):
    body = "    if x:\n        x += 1\n    if x > 9:\n        x = 9\n    return x\n\n\n"
    pairs = "".join(f"def part_{number}(x):\n{body}" for number in range(3))
    repository = tiny_repository(tmp_path, {"shapes/parts.py": pairs})
    symbols = tuple(Symbol(file="shapes/parts.py", name=f"part_{number}") for number in range(3))
    many = replace(candidate, symbols=symbols, edits={"shapes/parts.py": ""}, statement={"L0": "0 1 2 9"})
    found = variants(many, split, Bench(repository, bench.coverage, TestSetup()), 0)
    changed = [next(n for n, part in enumerate(pairs.split("\n\n\n")) if part not in each.text) for each in found]
    assert sorted(changed[:3]) == [0, 1, 2] and len(found) == 9


def test_a_test_that_names_a_message_by_an_attribute_does_not_tell_it(candidate, split, bench, monkeypatch):
    monkeypatch.setattr(telling, "_undecided", lambda *arguments: iter(()))
    hidden = replace(split, edits={**split.edits, **LOST})
    short = {BOX: "```python\ndef test_label_of_a_box(self):\n    assert label('box') == self.expected\n```"}
    told = enough_told(replace(candidate, examples=short), hidden, bench, 0)
    assert (told.hidden, told.examples, told.left_out) == (OTHERS, (), 1)


CONDITIONS = """def unique(items, seen, strict):
    if strict and items or seen is None:
        seen = []
    return [item for item in items if item not in seen] if seen else items
"""


def test_each_part_of_a_condition_is_a_choice():
    source = read_source(CONDITIONS)
    found = {ast.dump(ast.parse(text)) for text in _choices(source, source.functions["unique"], None)}
    for gone, left in (
        ("strict and items or seen is None", "seen is None"),
        ("strict and items or seen is None", "strict and items"),
        ("strict and items", "strict"),
        ("item not in seen", "True"),
        (" if seen else items", ""),
        ("[item for item in items if item not in seen] if seen else items", "items"),
    ):
        assert ast.dump(ast.parse(CONDITIONS.replace(gone, left))) in found


def written(tmp_path, candidate, split, bench, text, statement):
    repository = tiny_repository(tmp_path, {"shapes/parts.py": text})
    symbols = tuple(Symbol(file="shapes/parts.py", name=name) for name in read_source(text).functions)
    changes = {"symbols": symbols, "edits": {"shapes/parts.py": ""}, "statement": {"L0": statement}}
    opened = Bench(repository, bench.coverage, TestSetup())
    return variants(replace(candidate, **changes), replace(split, edits={"shapes/parts.py": ""}), opened, 0)


def test_white_space_inside_a_message_has_to_be_spelled_out(candidate, split, bench, tmp_path):
    text = "def failed(name):\n    return 'boom\\n    raised in ' + name\n"
    literals = {each.literal for each in written(tmp_path / "a", candidate, split, bench, text, "boom raised in f")}
    assert literals == {"boom\n    raised in "}
    told = "assert failed('f') == 'boom\\n    raised in f'"
    assert written(tmp_path / "b", candidate, split, bench, text, told) == []


BRANCHES = "".join(f"    if x == {number}:\n        x += 1\n" for number in range(30))


def test_many_branches_that_nothing_describes_are_refused(candidate, split, bench, tmp_path):
    bare = f"def layout(x):\n{BRANCHES}    return x\n"
    with pytest.raises(Rejected, match="undocumented") as raised:
        written(tmp_path / "a", candidate, split, bench, bare, "Write `layout`.")
    assert raised.value.detail == "30 choices in 1 functions that nothing describes"
    said = bare.replace("(x):\n", '(x):\n    """Lay x out."""\n', 1)
    assert written(tmp_path / "b", candidate, split, bench, said, "> Lay x out.")


def test_what_described_functions_use_is_described_by_them():
    text = f'def layout(x):\n    """Lay x out."""\n    return _inner(x)\n\n\ndef _inner(x):\n{BRANCHES}    return x\n'
    functions = {("a.py", name): node for name, node in read_source(text).functions.items()}
    assert described(functions, "> Lay x out.") == functions.keys()
    assert described(functions, "") == frozenset()
