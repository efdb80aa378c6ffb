"""What counts as known, and that it leaves the graded text. Wrong here means a reward for nothing, or none for gold."""

from textwrap import dedent

import pytest

from composer_replication.environments.code.grading.lowering import lower

HEAD = "import pytest\nfrom package import f, g, Error\n"


def lowered(body: str, *tests: str, head: str = HEAD, others: dict[str, str] | None = None):
    found = lower("tests/test_it.py", head + dedent(body), tests or ("test_it",), ("package",), others=others or {})
    assert not found.left, found.left
    return found


GONE = {
    "a local": "def test_it():\n    expected = ['secret']\n    assert f(1) == expected\n",
    "a local that is built up": """
        def test_it():
            expected = []
            for word in ("secret", "other"):
                expected.append(word)
            assert f(1) == expected
        """,
    "a constant of the module": "TEXT = 'secret'\ndef test_it():\n    assert f(1) == TEXT\n",
    "a column of parameters": """
        @pytest.mark.parametrize("x, y", [(1, "secret"), (2, "b")], ids=["secret", "b"])
        def test_it(x, y):
            assert f(x) == y
        """,
    "a label of parameters": """
        @pytest.mark.parametrize("x", [pytest.param(1, id="secret")])
        def test_it(x):
            assert f(x) == 3
        """,
    "the only column": "@pytest.mark.parametrize('y', ['secret', 'b'])\ndef test_it(y):\n    assert f(1) == y\n",
    "a table of the module": """
        CASES = [(1, "secret"), (2, "b")]
        @pytest.mark.parametrize("x, y", CASES)
        def test_it(x, y):
            assert f(x) == y
        """,
    "a column of a loop": "def test_it():\n    for x, y in [(1, 'secret'), (2, 'b')]:\n        assert f(x) == y\n",
    "the values of a dict": """
        def test_it():
            for x, y in {1: "secret", 2: "b"}.items():
                assert f(x) == y
        """,
    "an argument of a helper": """
        def check(x, y):
            assert f(x) == y
        def test_it():
            check(1, "secret")
            check(2, y="b")
        """,
    "an argument of an inner helper": """
        def test_it():
            def check(x, y="secret"):
                assert f(x) == y
            check(1)
            check(2, "b")
        """,
    "a message": "def test_it():\n    assert f(1) == 2, 'secret'\n",
    "a docstring": "def test_it():\n    'secret'\n    assert f(1) == 2\n",
    "another test": "def test_other():\n    assert f(1) == 'secret'\ndef test_it():\n    assert f(1) == 2\n",
    "a pattern": "def test_it():\n    with pytest.raises(Error, match='secret'):\n        f(1)\n",
}


@pytest.mark.parametrize("body", GONE.values(), ids=GONE)
def test_what_is_only_expected_leaves_the_graded_text(body):
    found = lowered(body)
    assert "secret" not in found.graded and not found.exposed
    assert "_observe(0)" in found.graded and "_known" not in found.graded


def test_parameter_sets_keep_their_number_and_order():
    found = lowered("""
        @pytest.mark.parametrize("y", ["a", "b", "c"])
        @pytest.mark.parametrize("x, z", [(1, 2), pytest.param(3, 4, marks=pytest.mark.slow)])
        def test_it(x, y, z):
            assert f(x) == y + str(z)
        """)
    assert "('_case', [0, 1, 2])" in found.graded
    assert "('x', [1, pytest.param(3, marks=pytest.mark.slow)])" in found.graded
    assert "def test_000(x, _case):" in found.graded


LIVE = {
    "counted in a loop over live values": """
        def test_it():
            count = 0
            for _ in f(1):
                count += 1
            assert g(1) == count
        """,
    "handed to the package": "def test_it():\n    x = [1]\n    f(x)\n    assert g(1) == x\n",
    "handed over under another name": "def test_it():\n    x = [1]\n    y = x\n    f(y)\n    assert g(1) == x\n",
    "handed over inside something": "def test_it():\n    x = [1]\n    f({'a': x})\n    assert g(1) == x\n",
    "changed by a callback": "def test_it():\n    x = []\n    f(lambda v: x.append(v))\n    assert g(1) == x\n",
    "rebound by a callback": """
        def test_it():
            x = 0
            def callback():
                nonlocal x
                x += 1
            f(callback)
            assert g(1) == x
        """,
    "rebound as a global": """
        x = 0
        def callback():
            global x
            x += 1
        def test_it():
            f(callback)
            assert g(1) == x
        """,
    "where a loop was left": """
        def test_it():
            for x in (1, 2, 3):
                if f(x):
                    break
            assert g(1) == x
        """,
    "the last before a loop was left": """
        def test_it():
            for v in (1, 2, 3):
                x = v
                if f(v):
                    break
            assert g(1) == x
        """,
    "which branch was taken": """
        def test_it():
            x = 1
            if f(1):
                x = 2
            assert g(1) == x
        """,
    "whether something was raised": """
        def test_it():
            x = False
            try:
                f(1)
            except ValueError:
                x = True
            assert g(1) == x
        """,
    "a module's list that tests change": """
        x = []
        def note(v):
            x.append(v)
        def test_it():
            f(note)
            assert g(1) == x
        """,
    "an attribute": "def test_it(x):\n    x.a = 1\n    assert g(1) == x\n",
    "used up": "def test_it():\n    it = iter([1, 2])\n    x = next(it)\n    assert g(next(it)) == x\n",
    "a fixture": "def test_it(x):\n    assert g(1) == x\n",
}


@pytest.mark.parametrize("body", LIVE.values(), ids=LIVE)
def test_what_the_package_may_decide_is_sent(body):
    found = lowered(body)
    assert found.checks[max(found.checks)].live == (True, True), found.graded


def test_names_of_the_language_may_be_the_package_s():
    found = lowered("def test_it():\n    assert list(map(str, [1])) == ['1']\n", head="from package import *\n")
    assert found.checks[0].live == (True, False)


def test_a_comparison_of_the_test_s_own_values_is_not_dropped():
    found = lowered("def test_it():\n    x = 3\n    assert f(x) == 4\n    assert x == 3\n")
    assert found.checks[1].live == (True, True)


def test_numbers_and_texts_stay_known_when_the_package_got_them():
    found = lowered("def test_it():\n    x = 'a'\n    assert f(x) == x\n")
    assert found.checks[0].live == (True, False) and not found.exposed


def test_what_cannot_be_taken_out_is_said():
    rows = "from package import rows\n"
    body = (
        "CASES = [{'x': 1, 'y': 2}]\ndef test_it():\n    for case in CASES:\n        assert f(case['x']) == case['y']\n"
    )
    assert lowered(body, head=HEAD).exposed == {"test_it"}
    assert lowered("def test_it():\n    assert f(1) == rows.low\n", head=HEAD + rows).exposed == {"test_it"}


def test_a_base_class_of_another_file_is_seen_through():
    base = """
        import unittest
        class Base(unittest.TestCase):
            def check(self, x, y):
                return self.assertEqual(self.make(x), y)
            def test_inherited(self):
                self.check(1, "secret")
        """
    found = lowered(
        "from .base import Base\nclass SomeTest(Base):\n    make = f\n",
        "SomeTest::test_inherited",
        others={"tests/base.py": dedent(base)},
    )
    assert found.functions == {"SomeTest::test_inherited": "Test_1::test_000"}
    assert "secret" not in found.graded and "base" not in found.graded
    assert len(found.checks) == 1


def test_imports_of_the_package_stay_and_others_go():
    found = lowered("import json\ndef test_it():\n    assert f(1) == json.loads('[1]')\n")
    assert "from package import f, g, Error" in found.graded and "json" not in found.graded
