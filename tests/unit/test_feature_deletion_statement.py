"""What the agent is told, and what it must not be told."""

import pytest

from composer_replication.environments.code.generators.feature_deletion.edits import delete
from composer_replication.environments.code.generators.feature_deletion.example_tests import (
    example_text,
    gold_lines,
    standing_on,
)
from composer_replication.environments.code.generators.feature_deletion.generate import propose
from composer_replication.environments.code.generators.feature_deletion.statement import (
    documentation_of,
    required_names,
    statements,
)
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.tasks.symbols import source_index

from .feature_repository import FILES, shop_coverage, symbol, write_repository

DISCOUNT = (symbol("prices", "_share"), symbol("prices", "discount"))


@pytest.fixture
def shop(tmp_path):
    return write_repository(tmp_path / "shop")


def test_levels_say_less_and_less(shop):
    examples = ("tests/test_prices.py::test_cheaper",)
    said = statements(shop, DISCOUNT, "stub", examples=examples)
    assert "def discount(price, percent=10):" in said["L0"]
    assert "def discount(price, percent=10):" in said["L1"]
    assert "def discount" not in said["L2"]
    assert "Take a share off the price." in said["L2"]
    assert "`discount(100)` is 90" in said["L0"]
    assert "`discount(100)` is 90" not in said["L1"]
    assert "assert cheaper(10) == 9" in said["L0"]
    assert "assert cheaper(10) == 9" not in said["L1"]
    assert said["L3"].splitlines()[0] == "Make `discount` of `shop/prices.py` work again: Take a share off the price."
    assert len(said["L0"]) > len(said["L1"]) > len(said["L2"]) > len(said["L3"])


def test_a_removal_names_every_place_that_a_name_was_imported_from(shop):
    removed = delete(shop, DISCOUNT, "remove").removed
    for text in statements(shop, DISCOUNT, "remove", removed).values():
        for name in ("shop.discount", "shop.prices.discount", "shop.prices.cheaper"):
            assert f"`{name}`" in text
        assert "_share`" not in text.partition("must exist again")[2].partition("\n")[0]


def test_no_level_holds_a_line_of_the_solution(shop):
    """The documentation quotes one, and is cut there."""
    index = source_index(shop)
    quoted = "cut = _share(price, percent)"
    assert quoted in FILES["README.md"]
    for candidate in propose(shop, shop_coverage(), GeneratorSettings(limit=100)):
        gold = gold_lines(index, candidate.symbols)
        assert gold or candidate.mode == "remove-file"
        for text in candidate.statement.values():
            said = {"".join(line.split()).removeprefix(">") for line in text.splitlines()}
            assert not said & gold, candidate.name
    assert not any(quoted in text for text in statements(shop, DISCOUNT, "stub").values())


def test_a_test_that_repeats_the_solution_is_no_example(tmp_path):
    spoiler = FILES["tests/test_prices.py"] + "\n\ndef test_spoiler():\n    missing = -price % step\n"
    shop = write_repository(tmp_path / "shop", {"tests/test_prices.py": spoiler})
    said = statements(shop, (symbol("prices", "round_up"),), "stub", examples=["tests/test_prices.py::test_spoiler"])
    assert "test_spoiler" not in said["L0"]


def test_shown_tests_are_those_of_the_statement_and_leave_enough_hidden(shop):
    shown = 0
    for candidate in propose(shop, shop_coverage(), GeneratorSettings(limit=100)):
        assert candidate.shown_tests <= candidate.expected_failing
        assert len(candidate.expected_failing - candidate.shown_tests) >= (3 if candidate.grain == "symbol" else 5)
        for test in candidate.shown_tests:
            name = test.partition("[")[0].rpartition("::")[2]
            assert f"def {name}(" in candidate.statement["L0"]
            assert f"def {name}(" not in candidate.statement["L1"]
        shown += len(candidate.shown_tests)
    assert shown > 0


def test_signatures_over_several_lines_are_shown_whole(tmp_path):
    text = "def wide(\n    first: dict[str, int],  # the table\n    second=lambda x: x,\n) -> int:\n    return first\n"
    shop = write_repository(tmp_path / "shop", {"shop/wide.py": text})
    said = statements(shop, (symbol("wide", "wide"),), "stub")["L1"]
    assert text.removesuffix("\n    return first\n") in said


def test_without_docstring_no_level_and_no_file_tells_it(shop):
    """Before, the statement printed the docstring that the tree no longer had."""
    found = list(propose(shop, shop_coverage(), GeneratorSettings(limit=100, modes=("stub-nodoc",))))
    assert found
    index = source_index(shop)
    for candidate in found:
        for each in candidate.symbols:
            text = documentation_of(index.definitions[each][0])
            for line in (line.strip() for line in text.splitlines() if len(line) > 8):
                assert not any(line in told for told in candidate.statement.values())
                assert line not in (candidate.edits[each.file] or "")


def test_a_removal_tells_what_else_it_took(shop):
    """Entries of tables and aliases; imports, exports and the feature itself are told otherwise."""
    deletion = delete(shop, DISCOUNT, "remove")
    said = statements(shop, DISCOUNT, "remove", deletion.removed, edits=deletion.edits)
    for level in ("L0", "L1"):
        told = said[level].partition("These lines went too:")[2].partition("```\n\n")[0]
        for line in ("cheaper = discount", "ACTIONS = [add_tax, discount, round_up]", 'discount.unit = "cents"'):
            assert line in told
        assert "import" not in told and "def " not in told and "__all__" not in told
    assert "went too" not in said["L2"] and "went too" not in statements(shop, DISCOUNT, "stub")["L0"]


def test_the_constants_of_a_removed_file_are_told(shop):
    whole = (symbol("text", "slug"), symbol("text", "shout"))
    said = statements(shop, whole, "remove-file", edits={"shop/text.py": None, "shop/stock.py": None})
    assert "went too" not in said["L0"], "nothing but definitions, exports and a docstring"
    said = statements(shop, whole, "remove-file", edits={"shop/prices.py": None})
    assert 'RATES = {"low": 7, "high": 19}' in said["L0"]


def test_all_that_somebody_else_may_use_of_a_class_is_told(tmp_path):
    text = """class Till:
    def __repr__(self):
        return "till"

    @property
    def _drawer(self):
        return 1

    def _hidden_away(self):
        return self._drawer
"""
    tests = "from shop.till import Till\n\n\ndef test_drawer():\n    assert Till()._drawer == 1\n"
    shop = write_repository(tmp_path / "shop", {"shop/till.py": text, "tests/test_till.py": tests})
    said = statements(shop, (symbol("till", "Till"),), "remove")["L1"]
    assert "def __repr__(self):" in said and "@property\ndef _drawer(self):" in said and "_hidden_away" not in said


def test_examples_are_shown_with_what_they_stand_on(tmp_path):
    """Decorators, the head of a class, what sets it up, and tables and helpers of the module."""
    tests = """import pytest
import unittest
from shop import slug

CASES = [("A b", "a-b")]


def make(text):
    return slug(text)


@pytest.mark.parametrize("text, wanted", CASES)
def test_cases(text, wanted):
    assert make(text) == wanted


class SlugTest(unittest.TestCase):
    def setUp(self):
        self.text = "Two words"

    def test_two(self):
        assert slug(self.text) == "two-words"

    def test_other(self):
        assert slug("") == ""
"""
    shop = write_repository(tmp_path / "shop", {"tests/test_slugs.py": tests})
    index = source_index(shop)
    cases = example_text(index, "tests/test_slugs.py::test_cases", frozenset())
    for part in ("CASES = [", "def make(text):", "@pytest.mark.parametrize", "def test_cases"):
        assert part in cases
    assert "import" not in cases and "SlugTest" not in cases
    method = example_text(index, "tests/test_slugs.py::SlugTest::test_two", frozenset())
    assert method.splitlines()[1:3] == ["class SlugTest(unittest.TestCase):", "    def setUp(self):"]
    assert "def test_two" in method and "test_other" not in method


def test_a_feature_without_docstring_has_each_symbol_in_a_shown_test(shop):
    coverage = shop_coverage()
    for candidate in propose(shop, coverage, GeneratorSettings(limit=100, modes=("stub-nodoc",))):
        for each in candidate.symbols:
            assert coverage.by_symbol[each] & candidate.shown_tests


def test_what_a_removed_file_imports_from_outside_need_not_exist_again(tmp_path):
    text = "import re\nfrom time import time as now, sleep\nfrom .text import slug\n\n\ndef tick():\n    return now()\n"
    tests = "import shop.clock\n\n\ndef test_tick(monkeypatch):\n    monkeypatch.setattr('shop.clock.now', int)\n"
    shop = write_repository(tmp_path / "shop", {"shop/clock.py": text, "tests/test_clock.py": tests})
    names = ("re", "now", "sleep", "slug", "tick", "__all__")
    said = required_names(source_index(shop), {("shop/clock.py", name) for name in names})
    assert said == "These names must exist again: `shop.clock.now`, `shop.clock.slug`, `shop.clock.tick`."


def test_an_inherited_test_is_read_but_not_shown(shop):
    index = source_index(shop)
    module = index.tests["tests/test_basket.py"]
    assert [node.name for node in standing_on(module, "BasketTest.test_empty")] == ["test_empty"]
    assert standing_on(module, "BasketTest.test_nothing") == []
    assert example_text(index, "tests/test_basket.py::BasketTest::test_empty", frozenset()) is None


def test_of_what_went_along_no_half_statement_is_told(tmp_path):
    rows = "".join(f'    "row {number}",\n' for number in range(100))
    text = f"FIRST = 1\nLONG = [\n{rows}]\nLAST = 2\n\n\ndef used():\n    return LONG\n"
    shop = write_repository(tmp_path / "shop", {"shop/long.py": text})
    said = statements(shop, (symbol("long", "used"),), "remove-file", edits={"shop/long.py": None})["L0"]
    assert "FIRST = 1\nLAST = 2" in said and "row" not in said


def test_a_method_is_shown_with_what_it_reads_of_its_class(tmp_path):
    tests = """import unittest
from shop.text import slug


class SlugTest(unittest.TestCase):
    said = "two-words"
    other = "nothing"

    def wanted(self):
        return self.said

    def test_two(self):
        assert slug("Two words") == self.wanted()
"""
    index = source_index(write_repository(tmp_path / "shop", {"tests/test_slugs.py": tests}))
    text = example_text(index, "tests/test_slugs.py::SlugTest::test_two", frozenset())
    assert 'said = "two-words"' in text and "def wanted(self):" in text and "other" not in text
