"""A small repository, written for these tests, with the traps that real ones set, and the map of its tests."""

import subprocess
import sys
from pathlib import Path

from composer_replication.environments.code.tasks.loading import describe
from composer_replication.environments.code.tasks.repository import CoverageMap
from composer_replication.environments.code.tasks.task import Symbol
from composer_replication.environments.code.tasks.trees import write_texts

FILES = {
    "shop/__init__.py": '''"""A shop."""

from . import tables
from .basket import Basket, Empty
from .prices import (
    add_tax,
    discount,  # for regulars
    round_up,
)
from .text import *

__all__ = ["Basket", "Empty", "add_tax", "discount", "round_up", "slug"]
''',
    "shop/prices.py": '''"""Prices in cents."""

RATES = {"low": 7, "high": 19}


def registered(function):
    REGISTRY[function.__name__] = function
    return function


REGISTRY = {}


@registered
def add_tax(price, rate="high"):
    """The price with tax, rounded down.

    >>> add_tax(100)
    119
    """
    # a comment that says too much
    percent = RATES[rate]
    total = price * (100 + percent)
    return total // 100


def _share(price, percent):
    """Helper of the discount."""
    if percent < 0:
        raise ValueError("negative discount")
    return price * percent // 100


# Regulars pay less.
def discount(price, percent=10):
    """Take a share off the price."""
    cut = _share(price, percent)
    if cut > price:
        cut = price
    return price - cut
    # nothing else


def round_up(price, step=10):
    missing = -price % step
    if missing == 0:
        return price
    result = price + missing
    return result


cheaper = discount
ACTIONS = [add_tax, discount, round_up]
BY_NAME = {"tax": add_tax, "discount": discount}
discount.unit = "cents"
''',
    "shop/basket.py": '''from .prices import add_tax, discount


class Empty(Exception):
    pass


class Basket:
    """Holds prices."""

    def __init__(self):
        self.prices = []

    def put(self, price):
        if price < 0:
            raise ValueError(price)
        self.prices.append(price)
        self.prices.sort()
        return self

    def total(self, regular=False):
        """The sum with tax."""
        if not self.prices:
            raise Empty
        prices = self.prices
        if regular:
            prices = [discount(price) for price in prices]
        return sum(add_tax(price) for price in prices)

    sum = total
''',
    "shop/text.py": '''__all__ = ["slug", "shout"]


def slug(text):
    """A name for an address."""
    words = text.lower().split()
    kept = [word for word in words if word.isalnum()]
    joined = "-".join(kept)
    return joined


def shout(text):
    """Louder."""
    text = text.upper()
    if not text.endswith("!"):
        text += "!"
    return text
''',
    "shop/tables.py": '''from .text import slug


def table(rows):
    """Rows as lines."""
    lines = []
    for row in rows:
        lines.append(" | ".join(slug(str(cell)) for cell in row))
    return "\\n".join(lines)
''',
    "shop/stock.py": '''"""What is on the shelves."""


class Stock:
    """Counts by name."""

    def __init__(self):
        self.counts = {}

    def receive(self, name, count):
        """More of something."""
        if count <= 0:
            raise ValueError(count)
        known = self.counts.get(name, 0)
        self.counts[name] = known + count
        return self.counts[name]

    def sell(self, name, count=1):
        """Less of something."""
        known = self.counts.get(name, 0)
        if known < count:
            raise LookupError(name)
        left = known - count
        if left:
            self.counts[name] = left
        else:
            del self.counts[name]
        return left

    def rename(self, old, new):
        """Another name for something."""
        if old not in self.counts:
            raise LookupError(old)
        moved = self.counts.pop(old)
        known = self.counts.get(new, 0)
        self.counts[new] = known + moved
        return self.counts[new]


def scarce(stock, limit=2):
    """Names of which there is little."""
    found = []
    for name, count in stock.counts.items():
        if count <= limit:
            found.append(name)
    found.sort()
    return found
''',
    "shop/orders.py": '''from .stock import Stock


def parse(line):
    """`name x count`."""
    name, _, count = line.partition(" x ")
    if not count:
        raise ValueError(line)
    return name.strip(), int(count)


def fill(lines):
    """A stock from lines."""
    stock = Stock()
    for line in lines:
        name, count = parse(line)
        if count:
            stock.receive(name, count)
    return stock


def report(stock):
    """Lines from a stock."""
    lines = []
    for name in sorted(stock.counts):
        count = stock.counts[name]
        line = f"{name} x {count}"
        lines.append(line)
    if not lines:
        lines.append("empty")
    text = "\\n".join(lines)
    return text
''',
    "tests/test_stock.py": """import pytest

from shop.stock import Stock, scarce


@pytest.mark.parametrize("count", [1, 2, 3])
def test_receive(count):
    assert Stock().receive("tea", count) == count


def test_sell():
    stock = Stock()
    stock.receive("tea", 2)
    assert stock.sell("tea") == 1


def test_sell_nothing():
    with pytest.raises(LookupError):
        Stock().sell("tea")


def test_rename():
    stock = Stock()
    stock.receive("tea", 1)
    assert stock.rename("tea", "chai") == 1


def test_rename_nothing():
    with pytest.raises(LookupError):
        Stock().rename("tea", "chai")


def test_scarce():
    stock = Stock()
    stock.receive("tea", 1)
    assert scarce(stock) == ["tea"]
""",
    "tests/test_orders.py": """import pytest

from shop.orders import fill, parse, report


def test_parse():
    assert parse("tea x 2") == ("tea", 2)


def test_parse_nothing():
    with pytest.raises(ValueError):
        parse("tea")


def test_fill():
    assert fill(["tea x 2", "milk x 0"]).counts == {"tea": 2}


def test_report():
    assert report(fill(["tea x 2"])) == "tea x 2"


def test_empty_report():
    assert report(fill([])) == "empty"
""",
    "shop/prices.pyi": """from typing import Any

RATES: dict[str, int]

def add_tax(price: int, rate: str = ...) -> int: ...
def discount(price: int, percent: int = ...) -> int: ...
def round_up(price: int, step: int = ...) -> int: ...
""",
    "tests/test_prices.py": """import pytest

from shop import add_tax, discount, round_up
from shop.prices import cheaper

PAIRS = [(add_tax, 119), (discount, 90)]


def test_tax():
    assert add_tax(100) == 119


def test_low_tax():
    assert add_tax(100, "low") == 107


def test_unknown_rate():
    with pytest.raises(KeyError):
        add_tax(100, "none")


# Regulars again.
@pytest.mark.parametrize("price", [100, 200])
def test_discount(price):
    assert discount(price) == price * 9 // 10


def test_negative_discount():
    with pytest.raises(ValueError):
        discount(100, -1)


def test_cheaper():
    assert cheaper(10) == 9


@pytest.mark.parametrize("step", [1, 10, 100])
def test_round_up(step):
    assert round_up(101, step) % step == 0
""",
    "tests/test_basket.py": """import unittest

import shop
from shop.basket import Basket


class Common:
    def test_empty(self):
        with self.assertRaises(shop.Empty):
            self.make().total()

    def test_one(self):
        assert self.make().put(100).total() == 119


class BasketTest(Common, unittest.TestCase):
    make = Basket

    def test_regular(self):
        assert self.make().put(100).total(regular=True) == 107

    def test_negative(self):
        with self.assertRaises(ValueError):
            self.make().put(-1)

    def test_two(self):
        assert self.make().put(2).put(1).prices == [1, 2]
""",
    "tests/test_text.py": """from shop import slug
from shop.text import shout


def test_slug():
    assert slug("Two words") == "two-words"


def test_slug_of_signs():
    assert slug("a ? b") == "a-b"


def test_slug_of_nothing():
    assert slug("") == ""


def test_shout():
    assert shout("hi") == "HI!"


def test_shout_twice():
    assert shout("hi!") == "HI!"


def test_shout_nothing():
    assert shout("") == "!"
""",
    "tests/test_tables.py": """from shop.tables import table


def test_table():
    assert table([["a", "b"]]) == "a | b"


def test_table_rows():
    assert table([["a"], ["b"]]) == "a\\nb"


def test_table_empty():
    assert table([]) == ""
""",
    "README.md": """# shop

`discount` takes a share off, `discount(100)` is 90.

Nothing to see here.

    cut = _share(price, percent)
    discount(price)
""",
}
TAX = ["test_tax", "test_low_tax", "test_unknown_rate"]
DISCOUNT = ["test_discount[100]", "test_discount[200]", "test_negative_discount", "test_cheaper"]
ROUND = ["test_round_up[1]", "test_round_up[10]", "test_round_up[100]"]
SLUG = ["test_slug", "test_slug_of_signs", "test_slug_of_nothing"]
SHOUT = ["test_shout", "test_shout_twice", "test_shout_nothing"]
TABLE = ["test_table", "test_table_rows", "test_table_empty"]
RECEIVE = ["test_receive[1]", "test_receive[2]", "test_receive[3]"]
RENAME = ["test_rename", "test_rename_nothing"]
RECEIVED = [*RECEIVE, "test_sell", "test_scarce", "test_rename"]
STOCK = [*RECEIVED, "test_sell_nothing", "test_rename_nothing"]
FILLING, REPORTING = ["test_fill", "test_report", "test_empty_report"], ["test_report", "test_empty_report"]
REGULAR, EMPTY, ONE = "BasketTest::test_regular", "BasketTest::test_empty", "BasketTest::test_one"
NEGATIVE, TWO = "BasketTest::test_negative", "BasketTest::test_two"


def write_repository(tree: Path, changes=None):
    write_texts(tree, {**FILES, **(changes or {})})
    return describe(tree, "shop")


def ids(file, names):
    return frozenset(f"tests/test_{file}.py::{name}" for name in names)


def shop_coverage():
    """What a traced run of the suite says, written out."""
    basket = {"Basket.__init__": [REGULAR, EMPTY, ONE, NEGATIVE, TWO], "Basket.put": [REGULAR, ONE, NEGATIVE, TWO]}
    basket["Basket.total"] = [REGULAR, EMPTY, ONE]
    by_symbol = {
        ("prices", "add_tax"): ids("prices", TAX) | ids("basket", [REGULAR, ONE]),
        ("prices", "discount"): ids("prices", DISCOUNT) | ids("basket", [REGULAR]),
        ("prices", "_share"): ids("prices", DISCOUNT) | ids("basket", [REGULAR]),
        ("prices", "round_up"): ids("prices", ROUND),
        ("text", "slug"): ids("text", SLUG) | ids("tables", TABLE[:2]),
        ("text", "shout"): ids("text", SHOUT),
        ("tables", "table"): ids("tables", TABLE),
        ("stock", "Stock.__init__"): ids("stock", STOCK) | ids("orders", FILLING),
        ("stock", "Stock.receive"): ids("stock", RECEIVED) | ids("orders", FILLING[:2]),
        ("stock", "Stock.sell"): ids("stock", ["test_sell", "test_sell_nothing"]),
        ("stock", "Stock.rename"): ids("stock", RENAME),
        ("stock", "scarce"): ids("stock", ["test_scarce"]),
        ("orders", "parse"): ids("orders", ["test_parse", "test_parse_nothing", *FILLING[:2]]),
        ("orders", "fill"): ids("orders", FILLING),
        ("orders", "report"): ids("orders", REPORTING),
        **{("basket", name): ids("basket", tests) for name, tests in basket.items()},
    }
    return CoverageMap(
        passing=frozenset().union(*by_symbol.values()),
        unstable=frozenset(),
        by_symbol={symbol(file, name): tests for (file, name), tests in by_symbol.items()},
        import_time=frozenset({symbol("prices", "registered")}),
        suite_s=0.1,
    )


def symbol(file, name):
    return Symbol(file=f"shop/{file}.py", name=name)


def run_python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=60, check=False)
