"""What a test needs by its own text, and nothing tells."""

import ast

import pytest

from composer_replication.environments.code.certificates.demands import Told, Untold, fixed_parts, from_outside
from composer_replication.environments.code.generators.feature_deletion.statement import EXAMPLES

DELETED = """
def check(value, strict_mode=False):
    if value is None:
        raise LookupError(f"no {value} here")
    return Report(first_reason="Missing key%s: %s" % ("", value))
"""


def asked(test: str, statement: str = "", left: str = "", near: str = "", outside=None) -> set[str]:
    return set(Untold(ast.parse(DELETED).body, Told(statement, left, near)).asked_by([ast.parse(test)], outside or {}))


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("with pytest.raises(LookupError): check(None)", {"LookupError in a test"}),
        ("with self.assertRaises((LookupError, OSError)): check(1)", {"LookupError in a test", "OSError in a test"}),
        ("try:\n    check(None)\nexcept LookupError:\n    pass", {"LookupError in a test"}),
        ("assert raises(LookupError, lambda: check(None))", {"LookupError in a test"}),
        ("FAILS = raises(LookupError)", {"LookupError"}),
        ("assert str(error) == \"Missing key: 'a'\"", {"'Missing key'"}),
        ("assert check(1).first_reason", {"first_reason"}),
        ("check(1, strict_mode=True)", {"strict_mode"}),
        ("assert check(1).other_name == 'another text'", set()),
        ("@property\ndef prop(self): ...", {"property"}),
        ("class Own(Base):\n    def __len__(self): ...", {"subclass of Base", "__len__"}),
        ("class Own(object):\n    def __init__(self): ...\n    def __private(self): ...", set()),
    ],
)
def test_what_is_told_nowhere_is_asked_for(test, wanted):
    assert asked(test) == wanted
    told = "check LookupError OSError Missing key first_reason strict_mode property subclass of Base __len__"
    assert asked(test, statement=told) == set()


def test_a_kind_of_exception_that_only_the_source_names_is_not_told():
    """Any built-in one could be meant; a package's own is known by its name."""
    test = "with raises(LookupError): check(None)"
    assert asked(test, left="raise LookupError") == {"LookupError in a test"}
    assert asked("with raises(CheckError): check(None)", left="class CheckError(Exception): ...") == set()
    assert asked("with raises(CheckError): check(None)") == {"CheckError"}


def test_a_kind_of_exception_is_told_with_what_raises_it():
    test = "with raises(LookupError): check(None)"
    apart = "### `check` in `a.py`\n\nChecks.\n\n### `find` in `a.py`\n\nRaises a LookupError."
    assert asked(test, statement=apart) == {"LookupError in a test"}
    assert asked(test, statement=apart.replace("Checks.", "Checks, or raises LookupError.")) == set()
    example = f"{EXAMPLES}\n\n```python\nwith raises(LookupError):\n    check(0)\n```"
    assert asked(test, statement=f"{apart}\n\n{example}") == {"LookupError in a test"}, "of another test"
    assert asked("with raises(LookupError): other(None)", statement=f"{apart}\n\n{example}") == set()


def test_a_kind_of_method_has_to_be_in_the_statement():
    assert asked("@property\ndef prop(self): ...", near="@property", left="@property") == {"property"}


def test_names_and_texts_that_are_left_are_told():
    assert asked("assert check(1).first_reason == 'Missing key: 1'", left="first_reason 'Missing key'") == set()


def test_what_a_test_brings_from_outside():
    tree = ast.parse("import pickle, pytest\nimport datetime as dt\nfrom shop import sell\nfrom . import helpers\n")
    outside = from_outside(tree, ("shop",))
    assert outside == {"pickle": "pickle", "dt": "datetime"}
    driven = ast.parse("import asyncio, tempfile\nfrom textwrap import dedent\n")
    assert from_outside(driven, ("shop",)) == {}, "how a test runs a coroutine asks nothing of what it returns"
    test = "assert pickle.loads(x) == dt.date(1, 1, 1) == sell(pytest)"
    assert asked(test, outside=outside) == {"pickle", "datetime"}
    assert asked(test, statement="can be saved by pickle", near="import datetime", outside=outside) == set()
    assert asked(test, left="pickle datetime", outside=outside) == {"pickle", "datetime"}


def test_a_message_is_known_by_what_stands_between_its_placeholders():
    assert list(fixed_parts("Missing key%s: %(name)s in {place!r}, twice\nor so")) == [
        "Missing key",
        ", twice",
        "or so",
    ]
