"""Each form of an assertion: the text that is graded, and the one that records what gold knows."""

from textwrap import dedent

import pytest

from composer_replication.environments.code.grading.lowering import lower

HEAD = "import pytest\nfrom package import f, g, Error\n"


def lowered(body: str, *tests: str, head: str = HEAD, others: dict[str, str] | None = None):
    found = lower("tests/test_it.py", head + dedent(body), tests or ("test_it",), ("package",), others=others or {})
    assert not found.left, found.left
    return found


def statements(text: str) -> str:
    """The body of the one test of a text."""
    return dedent(text.partition("def test_000():\n")[2]).strip()


def known(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "_known(" in line]


FORMS = [
    ("assert f(1) == 2", ["f(1)"], ["_known(0, 1, 2)"], ["eq"]),
    ("assert 2 != f(1)", ["f(1)"], ["_known(0, 0, 2)"], ["ne"]),
    ("assert f(1) <= 3", ["f(1)"], ["_known(0, 1, 3)"], ["le"]),
    ("assert not f(1) == 2", ["f(1)"], ["_known(0, 1, 2)"], ["ne"]),
    ("assert 'a' in f(1)", ["f(1)"], ["_known(0, 0, 'a')"], ["in"]),
    ("assert 'a' not in f(1)", ["f(1)"], ["_known(0, 0, 'a')"], ["not_in"]),
    ("assert f(1) is None", ["f(1)"], ["_known(0, 1, None)"], ["is"]),
    ("assert f(1) is not True", ["f(1)"], ["_known(0, 1, True)"], ["is_not"]),
    ("assert f(g) is g(1)", ["f(g) is g(1)"], [], ["truth"]),
    ("assert f(1)", ["not not f(1)"], [], ["truth"]),
    ("assert not f(1)", ["not not f(1)"], [], ["falsehood"]),
    ("assert isinstance(f(1), dict)", ["f(1)"], ["_known(0, 1, dict)"], ["isinstance"]),
    ("assert not isinstance(f(1), (int, Error))", ["f(1)"], ["_known(0, 1, (int, Error))"], ["not_isinstance"]),
    ("assert f(1) == g(2)", ["f(1), g(2)"], [], ["eq"]),
    ("assert f(1) == 2 and g(3)", ["f(1)", "not not g(3)"], ["_known(0, 1, 2)"], ["eq", "truth"]),
    ("assert f(1) == g.Kind", ["f(1)"], ["_known(0, 1, g.Kind)"], ["eq"]),
    (
        "assert 0 <= f(1) < 5",
        ["(_middle_1 := f(1))", "_middle_1"],
        ["_known(0, 0, 0)", "_known(1, 1, 5)"],
        ["le", "lt"],
    ),
    (
        "assert all(f(x) == x for x in (1, 2))",
        ["[f(x) for x in (1, 2)]"],
        ["_known(0, 1, [x for x in (1, 2)])"],
        ["eq"],
    ),
    ("pytest.raises(Error, f, 1)", ["f(1)"], ["_known(0, 1, Error)"], ["raises"]),
    ("with pytest.raises(ValueError):\n        f(1)", ["f(1)"], ["_known(0, 1, ValueError)"], ["raises"]),
]


@pytest.mark.parametrize(("source", "sent", "recorded", "kinds"), FORMS)
def test_a_form_sends_what_is_live_and_records_the_rest(source, sent, recorded, kinds):
    found = lowered(f"def test_it():\n    {source}\n")
    graded = "\n".join(f"with _observe({n}) as _seen:\n    _seen({part})" for n, part in enumerate(sent))
    assert statements(found.graded) == graded
    assert known(found.recording) == recorded
    assert [check.kind for check in found.checks.values()] == kinds
    assert found.functions == {"test_it": "test_000"} and not found.exposed


METHODS = [
    ("assertEqual(f(1), 2)", "eq", "f(1)", {}),
    ("assertNotEqual(f(1), 2)", "ne", "f(1)", {}),
    ("assertListEqual(f(1), [2])", "eq", "f(1)", {"type": "list"}),
    ("assertTrue(f(1))", "truth", "not not f(1)", {}),
    ("assertFalse(f(1))", "falsehood", "not not f(1)", {}),
    ("assertIsNone(f(1))", "is", "f(1)", {}),
    ("assertIsNotNone(f(1))", "is_not", "f(1)", {}),
    ("assertIs(f(1), None)", "is", "f(1)", {}),
    ("assertIn(2, f(1))", "in", "f(1)", {}),
    ("assertNotIn(2, f(1))", "not_in", "f(1)", {}),
    ("assertLess(f(1), 2)", "lt", "f(1)", {}),
    ("assertGreaterEqual(f(1), 2)", "ge", "f(1)", {}),
    ("assertIsInstance(f(1), int)", "isinstance", "f(1)", {}),
    ("assertAlmostEqual(f(1), 2.0, places=3)", "almost_equal", "f(1)", {"places": 3, "delta": None}),
    ("assertNotAlmostEqual(f(1), 2.0, delta=.5)", "not_almost_equal", "f(1)", {"places": None, "delta": 0.5}),
    ("assertCountEqual(f(1), [2])", "count_equal", "f(1)", {}),
    ("assertRegex(f(1), 'a+')", "regex", "f(1)", {}),
    ("assertNotRegex(f(1), 'a+')", "not_regex", "f(1)", {}),
    ("assertRaises(Error, f, 1, k=2)", "raises", "f(1, k=2)", {}),
    ("assertRaisesRegex(Error, 'no', f, 1)", "raises", "f(1)", {}),
]


@pytest.mark.parametrize(("call", "kind", "sent", "options"), METHODS)
def test_methods_of_unittest(call, kind, sent, options):
    found = lowered(
        f"import unittest\nclass SomeTest(unittest.TestCase):\n    def test_it(self):\n        self.{call}\n",
        "SomeTest::test_it",
    )
    assert found.functions == {"SomeTest::test_it": "Test_0::test_000"}
    assert f"_seen({sent})" in found.graded and "assert" not in found.graded
    assert [(check.kind, dict(check.options)) for check in found.checks.values()] == [(kind, options)]


def test_approx_keeps_its_tolerances():
    found = lowered("def test_it():\n    assert f(1) == pytest.approx([1.5], rel=1e-3)\n")
    assert found.checks[0].kind == "approx"
    assert found.checks[0].options == {"side": 1, "rel": 1e-3, "abs": None, "nan_ok": None}
    assert known(found.recording) == ["_known(0, 1, [1.5])"] and "approx" not in found.graded


def test_a_caught_exception_can_be_looked_at():
    found = lowered("""
        def test_it():
            with pytest.raises(Error, match="no+") as info:
                f(1)
            assert str(info.value) == "no"
            info.match("n.")
        """)
    assert statements(found.graded) == dedent("""\
        with _observe(0) as info:
            info(f(1))
        with _observe(1) as _seen:
            _seen(str(info.value))
        with _observe(2) as _seen:
            _seen(str(info.value))""")
    assert [check.kind for check in found.checks.values()] == ["raises", "eq", "regex"]
    assert found.checks[0].live == (True, False, False)


def test_arguments_of_a_call_that_must_raise_may_not_raise():
    found = lowered("def test_it():\n    pytest.raises(Error, f, g(2))\n")
    assert statements(found.graded) == dedent("""\
        _argument_1_0 = g(2)
        with _observe(0) as _seen:
            _seen(f(_argument_1_0))""")


def test_the_older_way_to_expect_an_exception():
    found = lowered("""
        def test_it():
            try:
                f(1)
                assert False, "must raise"
            except Error as error:
                assert error.code == 3
        """)
    assert "try" not in found.graded and "False" not in found.graded
    assert [check.kind for check in found.checks.values()] == ["raises", "eq"]


def test_exceptions_inside_try_go_to_their_handler():
    found = lowered("""
        def test_it():
            try:
                assert f(1) == 2
            except KeyError:
                assert g(1) == 3
        """)
    assert "_value_0_0 = f(1)\n        with _observe(0)" in found.graded


def test_a_module_s_raises_that_is_used_again():
    found = lowered(
        "def test_it():\n    with expects_error:\n        f(1)\n", head=HEAD + "expects_error = pytest.raises(Error)\n"
    )
    assert statements(found.graded) == "with _observe(0) as _seen:\n    _seen(f(1))"


def test_labels_of_subtests_go():
    found = lowered(
        """
        import unittest
        class Some(unittest.TestCase):
            def test_it(self):
                for x, y in [(1, 2), (3, 4)]:
                    with self.subTest(x=x, expected=y):
                        self.assertEqual(f(x), y)
        """,
        "Some::test_it",
    )
    assert "with self.subTest():" in found.graded and "for x in [1, 3]:" in found.graded


def test_answers_of_the_process_itself_keep_the_numbers():
    source = HEAD + "def test_it():\n    assert 1 in f(1)\n    assert 2 not in f(1)\n    assert f(1) == 3\n"
    found = lower("test_it.py", source, ("test_it",), (), answered=(0, 1))
    assert "_seen(1 in f(1))" in found.graded and "_seen(2 in f(1))" in found.graded
    assert [check.kind for check in found.checks.values()] == ["truth", "falsehood", "eq"]
    assert found.exposed == {"test_it"}
