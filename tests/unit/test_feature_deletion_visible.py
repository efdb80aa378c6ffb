"""Test files as the agent may see them: hidden tests gone, the rest as it was."""

import pytest

from composer_replication.environments.code.generators.feature_deletion.edits import delete
from composer_replication.environments.code.generators.feature_deletion.visible import gone_tests, visible_tests
from composer_replication.environments.code.tasks.test_ids import test_function as function_of
from composer_replication.environments.code.tasks.trees import write_tree

from .feature_repository import (
    DISCOUNT,
    EMPTY,
    FILES,
    NEGATIVE,
    ONE,
    REGULAR,
    TWO,
    ids,
    run_python,
    symbol,
)
from .feature_repository import write_repository as write

PRICES, BASKET = FILES["tests/test_prices.py"], FILES["tests/test_basket.py"]


@pytest.fixture
def shop(tmp_path):
    return write(tmp_path / "shop")


def between(text, start, end):
    return text[text.index(start) : text.index(end)]


def test_hidden_functions_go_and_the_rest_keeps_its_bytes(shop):
    visible = visible_tests(shop, {}, ids("prices", ["test_low_tax", "test_discount[100]"]))
    expected = PRICES.replace(between(PRICES, "def test_low_tax", "def test_unknown_rate"), "")
    expected = expected.replace(between(expected, "# Regulars again.", "def test_negative_discount"), "")
    assert visible == {"tests/test_prices.py": expected}


def test_a_parametrised_test_goes_whole(shop):
    hide = ids("prices", ["test_discount[100]"])
    gone = gone_tests(shop, visible_tests(shop, {}, hide), ids("prices", DISCOUNT))
    assert gone == ids("prices", ["test_discount[100]", "test_discount[200]"])
    assert function_of("t.py::C::f[a::b[c]]") == "t.py::C::f"
    assert function_of("odd[1]/t.py::f[a]") == "odd[1]/t.py::f"


def test_names_that_no_longer_import_go_with_what_stands_on_them(shop, tmp_path):
    deletion = delete(shop, [symbol("prices", "discount")], "remove")
    visible = visible_tests(shop, deletion.edits, ids("prices", DISCOUNT) | ids("basket", [REGULAR]))
    text = visible["tests/test_prices.py"]
    assert "from shop import add_tax, round_up\n" in text
    assert "cheaper" not in text
    assert "PAIRS = [(add_tax, 119)]\n" in text
    write_tree(shop.tree, tmp_path / "after", {**deletion.edits, **visible})
    run = run_python(tmp_path / "after", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert run.returncode == 0, run.stdout


def test_what_the_cascade_takes_from_the_tests_is_said_to_be_gone(shop, tmp_path):
    """The class needs the removed name for its body, so its tests go even if nobody asked for it."""
    deletion = delete(shop, [symbol("basket", "Basket")], "remove")
    visible = visible_tests(shop, deletion.edits, frozenset())
    assert "class BasketTest" not in visible["tests/test_basket.py"]
    every = ids("basket", [REGULAR, EMPTY, ONE, NEGATIVE, TWO])
    assert gone_tests(shop, visible, every) == every
    assert deletion.lost_tests == {"tests/test_basket.py::BasketTest"}


def test_an_inherited_test_is_switched_off_in_its_class_only(shop, tmp_path):
    hide = ids("basket", [ONE])
    visible = visible_tests(shop, {}, hide)
    assert visible == {"tests/test_basket.py": BASKET + "    test_one = None\n"}
    every = ids("basket", [REGULAR, EMPTY, ONE, NEGATIVE, TWO])
    assert gone_tests(shop, visible, every) == hide
    write_tree(shop.tree, tmp_path / "after", visible)
    run = run_python(tmp_path / "after", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_basket.py")
    assert "4 passed" in run.stdout, run.stdout


def test_an_override_that_goes_does_not_uncover_the_test_below_it(tmp_path):
    own = BASKET + "\n    def test_one(self):\n        assert True\n"
    shop = write(tmp_path / "shop", {"tests/test_basket.py": own})
    visible = visible_tests(shop, {}, ids("basket", [ONE]))
    assert visible["tests/test_basket.py"].rstrip().endswith("test_one = None")
    assert gone_tests(shop, visible, ids("basket", [ONE, TWO])) == ids("basket", [ONE])


def test_a_class_without_tests_left_goes(shop):
    visible = visible_tests(shop, {}, ids("basket", [REGULAR, EMPTY, ONE, NEGATIVE, TWO]))
    assert visible["tests/test_basket.py"].rstrip().endswith("assert self.make().put(100).total() == 119")


def test_a_class_that_others_build_on_stays(tmp_path):
    more = "\n\nclass MoreTest(BasketTest):\n    pass\n"
    shop = write(tmp_path / "shop", {"tests/test_basket.py": BASKET + more})
    visible = visible_tests(shop, {}, ids("basket", [REGULAR, EMPTY, ONE, NEGATIVE, TWO]))
    assert "class BasketTest" in visible["tests/test_basket.py"]


def test_a_file_without_tests_left_goes_unless_it_is_imported(tmp_path):
    every = ids("tables", ["test_table", "test_table_rows", "test_table_empty"])
    shop = write(tmp_path / "shop")
    assert visible_tests(shop, {}, every) == {"tests/test_tables.py": None}
    assert gone_tests(shop, {"tests/test_tables.py": None}, every) == every
    helper = FILES["tests/test_tables.py"] + "\n\nSIZE = 2\n"
    user = "from test_tables import SIZE\n\n\ndef test_size():\n    assert SIZE == 2\n"
    used = write(tmp_path / "used", {"tests/test_tables.py": helper, "tests/test_size.py": user})
    assert visible_tests(used, {}, every)["tests/test_tables.py"].endswith("SIZE = 2\n")


def test_a_test_that_asks_for_a_lost_fixture_goes(tmp_path):
    text = (
        "import pytest\n\nfrom shop.text import shout\n\n\n@pytest.fixture(params=[shout])\ndef loud(request):\n"
        "    return request.param\n\n\ndef test_loud(loud):\n    assert loud\n\n\ndef test_other():\n    assert True\n"
    )
    shop = write(tmp_path / "shop", {"tests/test_loud.py": text})
    deletion = delete(shop, [symbol("text", "shout")], "remove")
    assert deletion.lost_tests == {"tests/test_loud.py::loud", "tests/test_loud.py::test_loud"}
    visible = visible_tests(shop, deletion.edits, frozenset())
    assert "def test_other" in visible["tests/test_loud.py"]
    assert "loud(" not in visible["tests/test_loud.py"]
    both = {"tests/test_loud.py::test_loud", "tests/test_loud.py::test_other"}
    assert gone_tests(shop, visible, both) == {"tests/test_loud.py::test_loud"}


def test_nothing_hidden_changes_nothing(shop):
    assert visible_tests(shop, {}, frozenset()) == {}
    assert visible_tests(shop, delete(shop, [symbol("text", "slug")], "stub").edits, frozenset()) == {}
