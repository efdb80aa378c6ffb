"""Deleting a feature: what goes with it, what stays byte for byte, and what is never proposed."""

from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from composer_replication.environments.code.generators.difficulty import difficulty_score
from composer_replication.environments.code.generators.feature_deletion.edits import NotDeletable, delete
from composer_replication.environments.code.generators.feature_deletion.generate import propose
from composer_replication.environments.code.generators.feature_deletion.visible import gone_tests, visible_tests
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.tasks.trees import write_texts, write_tree
from composer_replication.errors import UsageError

from .feature_repository import FILES, ids, run_python, shop_coverage, symbol, write_repository


@pytest.fixture
def shop(tmp_path):
    return write_repository(tmp_path / "shop")


def lines(text):
    return text.splitlines(keepends=True)


def test_a_stub_keeps_signature_and_docstring(shop):
    deletion = delete(shop, [symbol("prices", "discount")], "stub")
    before, after = FILES["shop/prices.py"], deletion.edits["shop/prices.py"]
    body = before[before.index("    cut = _share") : before.index("\n\n\ndef round_up")]
    assert after == before.replace(body, "    raise NotImplementedError")
    assert list(deletion.edits) == ["shop/prices.py"]


def test_a_stub_without_docstring(shop):
    after = delete(shop, [symbol("prices", "add_tax")], "stub-nodoc").edits["shop/prices.py"]
    assert 'def add_tax(price, rate="high"):\n    raise NotImplementedError\n\n\ndef _share' in after


def test_an_emptied_class_keeps_its_shape(shop):
    after = delete(shop, [symbol("basket", "Basket")], "stub").edits["shop/basket.py"]
    assert after.count("raise NotImplementedError") == 3
    assert "    sum = total\n" in after
    assert '"""The sum with tax."""\n        raise NotImplementedError\n' in after


def test_removal_takes_imports_exports_aliases_and_tables(shop):
    deletion = delete(shop, [symbol("prices", "discount"), symbol("prices", "_share")], "remove")
    prices = deletion.edits["shop/prices.py"]
    for gone in ("discount", "_share", "Regulars", "cheaper", "unit"):
        assert gone not in prices
    assert "ACTIONS = [add_tax, round_up]\n" in prices
    assert 'BY_NAME = {"tax": add_tax}\n' in prices
    package = deletion.edits["shop/__init__.py"]
    assert "from .prices import (\n    add_tax,\n    round_up,\n)\n" in package
    assert '__all__ = ["Basket", "Empty", "add_tax", "round_up", "slug"]\n' in package
    assert deletion.edits["shop/basket.py"].startswith("from .prices import add_tax\n")
    assert "def discount" not in deletion.edits["shop/prices.pyi"]
    assert "def add_tax" in deletion.edits["shop/prices.pyi"]
    assert ("shop/__init__.py", "discount") in deletion.removed


def test_lines_that_are_not_part_of_a_removal_keep_their_bytes(shop):
    edits = delete(shop, [symbol("prices", "discount"), symbol("prices", "_share")], "remove").edits
    touched = {"ACTIONS = [add_tax, round_up]\n", 'BY_NAME = {"tax": add_tax}\n', "from .prices import add_tax\n"}
    touched.add('__all__ = ["Basket", "Empty", "add_tax", "round_up", "slug"]\n')
    for path, after in edits.items():
        assert set(lines(after)) - set(lines(FILES[path])) <= touched
        assert not Counter(lines(after)) - Counter([*lines(FILES[path]), *touched])


def test_the_tree_still_imports_after_a_removal(shop, tmp_path):
    deletion = delete(shop, [symbol("prices", "discount"), symbol("text", "slug")], "remove")
    write_tree(shop.tree, tmp_path / "after", deletion.edits)
    run = run_python(tmp_path / "after", "-c", "import shop; print(sorted(shop.__all__), hasattr(shop, 'slug'))")
    assert run.stdout == "['Basket', 'Empty', 'add_tax', 'round_up'] False\n", run.stderr


def test_a_removed_file_takes_its_imports(shop, tmp_path):
    deletion = delete(shop, [symbol("text", "slug")], "remove-file")
    assert deletion.edits["shop/text.py"] is None
    assert "text" not in deletion.edits["shop/__init__.py"]
    assert deletion.edits["shop/tables.py"].startswith("def table")
    write_tree(shop.tree, tmp_path / "after", deletion.edits)
    assert run_python(tmp_path / "after", "-c", "import shop.tables").returncode == 0


def test_a_name_that_a_package_lists_goes_with_its_file(tmp_path):
    listing = "import importlib\n\nfor name in ('prices', 'text'):\n    importlib.import_module('shop.' + name)\n"
    shop = write_repository(tmp_path / "shop", {"shop/__init__.py": listing})
    edits = delete(shop, [symbol("text", "slug")], "remove-file").edits
    assert "for name in ('prices',):\n" in edits["shop/__init__.py"]


@pytest.mark.parametrize(
    "user",
    [
        "class Child(Empty):\n    pass\n",
        "@Empty\ndef f():\n    pass\n",
        "def f(x=Empty):\n    pass\n",
        "def f(x: Empty):\n    pass\n",
        "class C:\n    kind = Empty\n",
        "if Empty:\n    x = 1\n",
        "try:\n    pass\nexcept Empty:\n    pass\n",
        "try:\n    Empty = 1\nexcept ValueError:\n    pass\n",
    ],
    ids=["base", "decorator", "default", "annotation", "class body", "condition", "handler", "second binding"],
)
def test_what_is_needed_at_import_cannot_be_removed(tmp_path, user):
    basket = FILES["shop/basket.py"] + "\n\n" + user
    shop = write_repository(tmp_path / "shop", {"shop/basket.py": basket})
    with pytest.raises(NotDeletable):
        delete(shop, [symbol("basket", "Empty")], "remove")


@pytest.mark.parametrize(
    "user", ["def f():\n    return Empty\n", "f = [Empty for _ in ()]\n", "if __name__ == '__main__':\n    Empty()\n"]
)
def test_what_runs_later_or_goes_along_does_not_hold_a_name(tmp_path, user):
    basket = FILES["shop/basket.py"].replace("class Basket", user + "\n\nclass Basket")
    shop = write_repository(tmp_path / "shop", {"shop/basket.py": basket})
    assert "class Empty" not in delete(shop, [symbol("basket", "Empty")], "remove").edits["shop/basket.py"]


def test_lazy_annotations_do_not_hold_a_name(tmp_path):
    user = "\n\ndef f(x: Empty) -> Empty:\n    return x\n"
    basket = "from __future__ import annotations\n" + FILES["shop/basket.py"] + user
    shop = write_repository(tmp_path / "shop", {"shop/basket.py": basket})
    assert delete(shop, [symbol("basket", "Empty")], "remove").edits["shop/basket.py"].endswith(user)


def test_an_emptied_block_gets_a_pass(tmp_path):
    optional = "try:\n    from .text import shout\nexcept ImportError:\n    raise\n"
    shop = write_repository(tmp_path / "shop", {"shop/extra.py": optional})
    after = delete(shop, [symbol("text", "shout")], "remove").edits["shop/extra.py"]
    assert after == "try:\n    pass\nexcept ImportError:\n    raise\n"


@pytest.mark.parametrize("text", ["def f(x): return x; y = 1\n", "def f(x): return x\n"])
def test_a_function_on_one_line_is_emptied_whole(tmp_path, text):
    shop = write_repository(tmp_path / "shop", {"shop/small.py": text + "z = 2\n"})
    after = delete(shop, [symbol("small", "f")], "stub").edits["shop/small.py"]
    assert after == "def f(x):\n    raise NotImplementedError\nz = 2\n"


def test_a_statement_that_shares_its_line_is_not_cut(tmp_path):
    shop = write_repository(tmp_path / "shop", {"shop/small.py": "def f():\n    pass\n\ng = f; h = 2\n"})
    with pytest.raises(NotDeletable, match="shares its line"):
        delete(shop, [symbol("small", "f")], "remove")


def test_blank_lines_stay_as_they_separate(tmp_path):
    tight = "x = 1\ndef f():\n    pass\n\n\ny = 2\n"
    loose = "x = 1\n\n\ndef f():\n    pass\n\n\ny = 2\n\n\ndef g():\n    pass\n"
    shop = write_repository(tmp_path / "shop", {"shop/tight.py": tight, "shop/loose.py": loose})
    assert delete(shop, [symbol("tight", "f")], "remove").edits["shop/tight.py"] == "x = 1\n\n\ny = 2\n"
    both = [symbol("loose", "f"), symbol("loose", "g")]
    assert delete(shop, both, "remove").edits["shop/loose.py"] == "x = 1\n\n\ny = 2\n"


def test_a_cut_that_is_not_what_was_asked_for_is_refused(tmp_path):
    """The brackets around the item are no part of it for the parser; without it they are an empty tuple."""
    odd = "def f():\n    pass\n\n\nboth = [(f), 2]\n"
    shop = write_repository(tmp_path / "shop", {"shop/odd.py": odd})
    with pytest.raises(NotDeletable, match="not what was asked for"):
        delete(shop, [symbol("odd", "f")], "remove")


def test_line_ends_and_marks_survive(tmp_path):
    text = "\ufeff# é\r\nname = 'é'; other = 1\r\n\r\n\r\ndef f(x):\r\n    '''é'''\r\n    return x"
    shop = write_repository(tmp_path / "shop", {"shop/small.py": text})
    after = delete(shop, [symbol("small", "f")], "stub").edits["shop/small.py"]
    assert after == text.replace("return x", "raise NotImplementedError")


@pytest.mark.parametrize("mode", ["stub", "stub-nodoc", "remove"])
def test_an_odd_module_is_cut_as_on_file(tmp_path, mode):
    golden = Path(__file__).parents[1] / "golden" / "feature_deletion"
    odd = {"shop/odd.py": (golden / "before.txt").read_text(encoding="utf-8"), "shop/other.py": "kept = 1\n"}
    shop = write_repository(tmp_path / "shop", odd)
    names = ["target", "Target"] if mode == "remove" else ["target", "Kept.only", "branch", "Target.method"]
    after = delete(shop, [symbol("odd", name) for name in names], mode).edits["shop/odd.py"]
    assert after == (golden / f"{mode}.txt").read_text(encoding="utf-8")


# -- candidates ------------------------------------------------------------------------------------------------------


@pytest.fixture
def candidates(shop):
    return list(propose(shop, shop_coverage(), GeneratorSettings(limit=100)))


def test_candidates_are_deterministic_by_seed_and_respect_the_limit(shop, candidates):
    again = list(propose(shop, shop_coverage(), GeneratorSettings(limit=100)))
    assert candidates == again
    assert list(propose(shop, shop_coverage(), GeneratorSettings(limit=3))) == candidates[:3]
    other = [each.name for each in propose(shop, shop_coverage(), GeneratorSettings(limit=100, seed=1))]
    assert other != [each.name for each in candidates]


def test_every_grain_and_mode_is_proposed(candidates):
    assert {each.grain for each in candidates} == {"symbol", "cluster", "cross-module"}
    assert {each.mode for each in candidates} == {"stub", "stub-nodoc", "remove", "remove-file"}
    assert len({each.name for each in candidates}) == len(candidates)


def test_modes_and_grains_are_choices(shop):
    settings = GeneratorSettings(limit=100, modes=("remove",), grains=("symbol",))
    chosen = list(propose(shop, shop_coverage(), settings))
    assert chosen
    assert {(each.mode, each.grain) for each in chosen} == {("remove", "symbol")}
    with pytest.raises(UsageError, match="no mode shred"):
        next(propose(shop, shop_coverage(), GeneratorSettings(modes=("shred",))))


def test_a_private_helper_goes_with_its_only_user(candidates):
    found = [each for each in candidates if symbol("prices", "discount") in each.symbols and each.grain == "symbol"]
    assert found
    assert all(symbol("prices", "_share") in each.symbols for each in found)


def test_what_runs_at_import_is_never_emptied(shop, candidates):
    def emptied(proposed):
        return {each for candidate in proposed if "stub" in candidate.mode for each in candidate.symbols}

    at_import = replace(shop_coverage(), import_time=frozenset({symbol("text", "shout")}))
    assert symbol("text", "shout") in emptied(candidates)
    assert symbol("text", "shout") not in emptied(propose(shop, at_import, GeneratorSettings(limit=100)))


def test_what_conftest_names_is_never_chosen(tmp_path):
    conftest = "import pytest\nfrom shop.text import slug\n\n\n@pytest.fixture\ndef name():\n    return slug('a')\n"
    shop = write_repository(tmp_path / "shop", {"tests/conftest.py": conftest})
    for candidate in propose(shop, shop_coverage(), GeneratorSettings(limit=100)):
        assert symbol("text", "slug") not in candidate.symbols


def test_a_name_that_other_code_holds_as_a_value_is_not_removed(tmp_path):
    """The check runs before every call of `total`, whose tests do not run `slug`."""
    checked = FILES["shop/basket.py"].replace('        """The sum with tax."""\n', "        assert callable(slug)\n")
    basket = "from .text import slug\n" + checked
    shop = write_repository(tmp_path / "shop", {"shop/basket.py": basket})
    coverage = shop_coverage()
    many = ids("basket", [f"BasketTest::test_more[{number}]" for number in range(5)])
    coverage.by_symbol[symbol("basket", "Basket.total")] |= many
    settings = GeneratorSettings(limit=100, modes=("remove",), grains=("symbol",))
    names = {each for candidate in propose(shop, coverage, settings) for each in candidate.symbols}
    assert symbol("text", "slug") not in names
    assert symbol("text", "shout") in names


def test_tests_that_go_through_the_names_are_expected_to_fail(tmp_path):
    coverage = shop_coverage()
    through = ids("names", ["test_documented[slug]", "test_documented[shout]"])
    coverage = replace(coverage, passing=coverage.passing | through)
    settings = GeneratorSettings(limit=100, modes=("remove",), grains=("symbol",))
    for candidate in propose(write_repository(tmp_path / "shop"), coverage, settings):
        removed = {each.name for each in candidate.symbols} & {"slug", "shout"}
        assert candidate.expected_failing & through == ids("names", [f"test_documented[{name}]" for name in removed])


def test_tests_that_only_name_a_removed_symbol_are_expected_to_fail(shop):
    """As if `test_cheaper` had been answered by a cache when it was traced."""
    coverage, naming = shop_coverage(), ids("prices", ["test_cheaper"])
    traced = {each: tests - naming for each, tests in coverage.by_symbol.items()}
    settings = GeneratorSettings(limit=100, modes=("remove", "stub"), grains=("symbol",))
    for candidate in propose(shop, replace(coverage, by_symbol=traced), settings):
        removes = candidate.mode == "remove" and symbol("prices", "discount") in candidate.symbols
        assert (naming <= candidate.expected_failing) is removes


def test_every_candidate_leaves_a_green_repository_and_breaks_what_it_says(shop, candidates, tmp_path):
    """The real thing: the hidden tests fail on the agent's tree, and the visible ones are green there."""
    coverage = shop_coverage()
    one_of_each_mode = {each.mode: each for each in candidates if each.grain != "symbol" or each.mode == "stub-nodoc"}
    for number, candidate in enumerate(one_of_each_mode.values()):
        tree = tmp_path / str(number)
        visible = visible_tests(shop, candidate.edits, candidate.expected_failing)
        gone = gone_tests(shop, visible, coverage.passing)
        assert candidate.expected_failing <= gone
        write_tree(shop.tree, tree, {**candidate.edits, **visible})
        run = run_python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
        assert run.returncode == 0, (candidate.name, run.stdout)
        assert f"{len(coverage.passing - gone)} passed" in run.stdout, (candidate.name, run.stdout)
        write_texts(tree, {path: FILES[path] for path, text in visible.items()})
        broken = run_python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sorted(candidate.expected_failing))
        assert " passed" not in broken.stdout, (candidate.name, broken.stdout)


def test_editable_paths_are_source_only(candidates):
    for candidate in candidates:
        assert all(any(fnmatchcase(path, each) for each in candidate.editable) for path in candidate.edits)
        assert not any("test" in path for path in candidate.editable)


def test_difficulty_grows_with_the_grain(candidates):
    size = Counter[str]()
    for candidate in candidates:
        score = difficulty_score(candidate.difficulty)
        size[candidate.grain] = max(size[candidate.grain], score)
        assert difficulty_score(candidate.difficulty, "L3") > score
    assert size["symbol"] < size["cross-module"]
    assert size["cluster"] < size["cross-module"]
    for candidate in candidates:
        assert candidate.difficulty["tests"] == len(candidate.expected_failing)
        assert candidate.difficulty["files"] == len(candidate.edits)
