"""Tests that keep their old form, each with its reason, and texts that are no tests."""

import ast
from textwrap import dedent

import pytest

from composer_replication.environments.code.grading.lowering import lower

HEAD = "import pytest\nfrom package import f, g, Error\n"

LEFT = {
    "no comparison": "def test_it():\n    f(1)\n",
    "a comparison inside an expression": "def test_it():\n    assert f(1) == 2 or f(1) == 3\n",
    "a comparison in a helper's answer": """
        def same(a, b):
            return a == b
        def test_it():
            assert same(f(1), 2)
        """,
    "an assertion in a callback": """
        def test_it():
            def callback(x):
                assert x == 1
            f(callback)
            assert g(1) == 2
        """,
    "mock's own assertion": "def test_it(m):\n    assert f(m) == 1\n    m.assert_called_once_with(2)\n",
    "pytest.warns": "def test_it():\n    with pytest.warns(UserWarning):\n        assert f(1) == 1\n",
    "an assertion inside try": """
        def test_it():
            try:
                assert f(1) == 2
            except Exception:
                pass
        """,
    "an assertion whose failure is expected": """
        def test_it():
            with pytest.raises(AssertionError):
                assert f(1) == 2
        """,
    "an expected exception that is computed": "def test_it(x):\n    with pytest.raises(x):\n        f(1)\n",
    "details of an exception's catcher": """
        def test_it():
            with pytest.raises(Error) as info:
                f(1)
            assert info.traceback[0] == 2
        """,
    "a denied order": "def test_it():\n    assert not f(1) < 2\n",
    "decorated by pytest.mark.xfail": "@pytest.mark.xfail\ndef test_it():\n    assert f(1) == 2\n",
    "decorated by given": "@given(1)\ndef test_it():\n    assert f(1) == 2\n",
    "async": "async def test_it():\n    assert f(1) == 2\n",
    "defined twice": "def test_it():\n    assert f(1) == 2\ndef test_it():\n    assert f(1) == 3\n",
    "not in this file": "def test_other():\n    assert f(1) == 2\n",
    "unreadable: SyntaxError": "def test_it(:\n",
}


@pytest.mark.parametrize(("reason", "body"), LEFT.items(), ids=list(LEFT))
def test_what_is_left_says_why(reason, body):
    found = lower("test_it.py", HEAD + dedent(body), ("test_it",), ("package",))
    assert found.left == {"test_it": reason}
    assert not found.functions and not found.checks and not found.graded


def test_a_test_that_is_left_does_not_keep_its_neighbour():
    source = HEAD + "def test_a():\n    f(1)\ndef test_b():\n    assert f(1) == 2\n"
    found = lower("test_it.py", source, ("test_a", "test_b"), ())
    assert set(found.left) == {"test_a"} and set(found.functions) == {"test_b"}


def test_a_package_that_hides_a_module_of_the_library_is_not_trusted():
    found = lower("test_it.py", "import json\ndef test_it():\n    assert json.x(1) == 2\n", ("test_it",), ("json",))
    assert "standard library" in found.left["test_it"]


@pytest.mark.parametrize(
    "body",
    [
        "f(" * 3000,
        "x = " + "-" * 200_000 + "1",
        "assert f(1) == '\\ud800'",
        "assert (yield) == 1",
        "assert [*f(1)] == [*g(1)]",
        "assert f(1) == (x := 2)",
        "global y; y = 1; assert f(1) == y",
        "match f(1):\n        case [a, *b]: assert a == b",
        "with pytest.raises(*Error): f(1)",
        "with pytest.raises(): f(1)",
        "pytest.raises(Error, *[f], **{})",
        "self.assertEqual()",
        "self.assertTrue(); self.assertIsNone()",
        "self.assertEqual(*f(1))",
        "assert f(1) == pytest.approx()",
        "assert f(1) == pytest.approx(1, g(1))",
        "assert f(1) == pytest.approx(1, 2, 3, 4, 5)",
        "for a, b in [(1, 2), (3,)]: assert f(a) == b",
        "for a in ((1, 2), *g(1)): assert f(a) == 1",
        "assert isinstance(f(1))",
        "try: assert f(1) == 1\n    except* ValueError: pass",
        "del f",
        "lambda: self.assertEqual(f(1), 2)",
        "exec('assert f(1) == 2'); assert f(1) == locals()",
    ],
)
@pytest.mark.parametrize("decorator", ["", "@pytest.mark.parametrize('self', 1)", "@pytest.mark.parametrize()"])
def test_odd_source_is_lowered_or_left(body, decorator):
    source = HEAD + f"{decorator}\ndef test_it(self):\n    {body}\n"
    found = lower("test_it.py", source, ("test_it",), ())
    assert set(found.left) ^ set(found.functions) == {"test_it"}
    ast.parse(found.graded)


def test_names_that_something_mentions_stay():
    source = HEAD + "class TestSome:\n    def test_it(self):\n        assert f(self).name == 'TestSome.test_it'\n"
    found = lower("test_it.py", source, ("TestSome::test_it",), ())
    assert found.functions == {"TestSome::test_it": "TestSome::test_it"}
