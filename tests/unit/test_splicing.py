"""A code block of a reply goes into a file at the place of the old definition, and everything else keeps its bytes."""

from __future__ import annotations

import ast
import textwrap

import pytest

from composer_replication.environments.code.episodes.code_blocks import read_answer
from composer_replication.environments.code.episodes.splicing import outermost, splice
from composer_replication.environments.code.episodes.tools import ToolError

FILE = '''\
"""A module."""

import os

LIMIT = 3  # a comment that stays


class Box:
    size = 1

    @property
    def area(self):
        """What it covers."""
        raise NotImplementedError

    @staticmethod
    def make(size):
        raise NotImplementedError

    class Lid:
        def close(self):
            raise NotImplementedError

    def name(self):
        return "box"


def known():
    return os.sep


if LIMIT:
    def guarded():
        raise NotImplementedError


@known
def wanted(a):  # odd   spacing
    raise NotImplementedError


async def later():
    raise NotImplementedError

def last(): raise NotImplementedError
'''


def answer(code, language="python"):
    return f"Here it is.\n```{language}\n{textwrap.dedent(code).strip()}\n```\nGood luck!"


def put(reply, *names, text=FILE):
    return splice("box.py", text, read_answer(reply, names), names)


def changed_lines(result, text=FILE):
    before = text.splitlines()
    return [line for line in result.splitlines() if line not in before]


def test_a_function_is_replaced_and_nothing_else_moves():
    result = put(answer("def wanted(a):\n    return a + 1"), "wanted")
    old = "def wanted(a):  # odd   spacing\n    raise NotImplementedError\n"
    assert result == FILE.replace(old, "def wanted(a):\n    return a + 1\n")


def test_decorators_stay_where_the_block_has_none_and_go_where_it_has_some():
    assert "@property\n    def area(self):\n        return 2\n" in put(
        answer("def area(self):\n    return 2"), "Box.area"
    )
    result = put(answer("@other\n@more(1)\ndef wanted(a):\n    return a"), "wanted")
    assert "@other\n@more(1)\ndef wanted(a):\n    return a\n" in result and "@known" not in result


@pytest.mark.parametrize(
    "code",
    [
        "def area(self):\n    return self.size * 2",
        "class Box:\n    def area(self):\n        return self.size * 2",
        "class Box:\n  def area(self):\n      return self.size * 2",
        "class Box:\n\tdef area(self):\n\t\treturn self.size * 2",
        "    def area(self):\n        return self.size * 2",
    ],
)
def test_a_method_gets_the_indentation_of_its_class(code):
    result = put(f"```python\n{code}\n```", "Box.area")
    box = next(node for node in ast.parse(result).body if isinstance(node, ast.ClassDef))
    area = next(node for node in box.body if getattr(node, "name", "") == "area")
    assert ast.unparse(area) == "@property\ndef area(self):\n    return self.size * 2"
    assert result.replace(FILE[: FILE.index("def area")], "").startswith("def area")
    assert result.endswith(FILE[FILE.index("    @staticmethod") :])


def test_a_method_whose_first_line_lost_its_indentation():
    code = "def area(self):\n        return self._half() * 2\n\n    def _half(self):\n        return 1"
    result = put(f"```python\n{code}\n```", "Box.area")
    assert "    def area(self):\n        return self._half() * 2\n\n    def _half(self):\n        return 1\n" in result


def test_nested_names_async_functions_conditions_and_one_liners():
    assert "        def close(self):\n            return 1\n" in put(
        answer("class Box:\n    class Lid:\n        def close(self):\n            return 1"), "Box.Lid.close"
    )
    assert "async def later():\n    return 1\n" in put(answer("async def later():\n    return 1"), "later")
    assert "if LIMIT:\n    def guarded():\n        return 1\n" in put(answer("def guarded():\n    return 1"), "guarded")
    assert put(answer("def last():\n    return 1"), "last").endswith("\ndef last():\n    return 1\n")


def test_several_definitions_at_once():
    code = "def wanted(a):\n    return 1\n\nclass Box:\n    @staticmethod\n    def make(size):\n        return 2\n"
    result = put(answer(code), "wanted", "Box.make")
    assert changed_lines(result) == ["        return 2", "def wanted(a):", "    return 1"]
    apart = answer("def wanted(a):\n    return 1") + "\n" + answer("def last():\n    return 2")
    assert changed_lines(put(apart, "wanted", "last")) == [
        "def wanted(a):",
        "    return 1",
        "def last():",
        "    return 2",
    ]


def test_a_whole_class():
    result = put(answer("class Box:\n    def area(self):\n        return 1"), "Box")
    assert "class Box:\n    def area(self):\n        return 1\n\n\ndef known" in result
    assert outermost(["Box.area", "Box", "Boxer.x", "Box.make"]) == ("Box", "Boxer.x")


def test_line_ends_and_tabs_of_the_file_are_kept():
    windows = FILE.replace("\n", "\r\n")
    result = put(answer("def wanted(a):\n    return 1"), "wanted", text=windows)
    assert "\n" not in result.replace("\r\n", "")
    tabs = "class A:\n\tdef f(self):\n\t\traise NotImplementedError\n\n\tdef g(self):\n\t\treturn 2\n"
    result = put(answer("def f(self):\n    if self:\n        return 1\n    return 0"), "A.f", text=tabs)
    assert result.startswith("class A:\n\tdef f(self):\n\t    if self:\n") and result.endswith("\t\treturn 2\n")
    ast.parse(result)
    assert put("```\r\ndef wanted(a):\r\n    return 1\r\n```", "wanted").count("\r") == 0


def test_strings_over_several_lines_are_not_moved():
    code = 'def area(self):\n    """Doc\n  odd."""\n    return f"""a\n{self}\n"""'
    result = put(answer(code), "Box.area")
    assert '    def area(self):\n        """Doc\n  odd."""\n        return f"""a\n{self}\n"""\n' in result


def test_imports_and_helpers_come_along_once():
    code = """
    from __future__ import annotations
    import os
    import math
    from typing import Any

    LIMIT = 99
    SCALE = 2

    def known():
        return "another"

    def helper(x):
        return x * SCALE

    def wanted(a):
        return helper(a) + math.pi

    print(wanted(1))
    if __name__ == "__main__":
        wanted(2)
    """
    result = put(answer(code), "wanted")
    assert result.startswith(
        '"""A module."""\nfrom __future__ import annotations\n\nimport os\nimport math\nfrom typing import Any\n'
    )
    assert "SCALE = 2\n\ndef helper(x):\n    return x * SCALE\n\n\n@known\ndef wanted(a):" in result
    assert result.count("LIMIT =") == result.count("def known") == result.count("import os") == 1
    assert "print" not in result and "__main__" not in result and "another" not in result


def test_imports_of_a_file_without_a_beginning():
    result = put(
        answer("import re\nX = 1\ndef f():\n    return re"), "f", text="def f():\n    raise NotImplementedError"
    )
    assert result == "import re\nX = 1\n\ndef f():\n    return re\n"


def test_what_was_taken_out_is_put_at_the_end():
    result = put(answer("import re\n\ndef fresh():\n    return re"), "fresh")
    assert result.endswith("def last(): raise NotImplementedError\n\n\ndef fresh():\n    return re\n")
    result = put(answer("def fresh(self):\n    return 1"), "Box.fresh")
    assert '        return "box"\n\n    def fresh(self):\n        return 1\n\n\ndef known' in result


def test_marks_inside_a_documentation_string_do_not_end_the_block():
    definition = (
        'def commas(n):\n    """With commas.\n\n    ```pycon\n    >>> commas(1)\n    ```\n    """\n    return n'
    )
    block = read_answer(f"Here it is:\n\n```python\n{definition}\n```\nDone.", ["commas"])
    assert "\n".join(block.lines) == definition


def test_the_last_block_with_the_definition_counts():
    first, second = answer("def wanted(a):\n    return 1"), answer("def wanted(a):\n    return 2")
    two = f"{first}\nBetter:\n{second}"
    assert "return 2" in put(two, "wanted") and "return 1" not in put(two, "wanted")
    used = f"{first}\nUse it:\n{answer('wanted(3)')}"
    assert "return 1" in put(used, "wanted")
    assert "return 2" in put(answer("def wanted(a):\n    return 1\n\ndef wanted(a):\n    return 2"), "wanted")


@pytest.mark.parametrize("before, after", [("", ""), ("```python\n", ""), ("~~~\n", "\n~~~"), ("```\n", "```")])
def test_marks_may_be_missing(before, after):
    assert "    return 5\n" in put(f"{before}def wanted(a):\n    return 5{after}", "wanted")


@pytest.mark.parametrize(
    "reply, told",
    [
        ("", "did not hold a code block"),
        ("I cannot.", "did not hold a code block"),
        ("```python\n```", "did not hold a code block"),
        (answer("def other(a):\n    return 1"), "did not define `wanted`"),
        (answer("class wanted_by:\n    pass"), "did not define `wanted`"),
        (answer("def wanted(a)\n    return 1"), "expected ':' in line 1 of the code block: `def wanted(a)`"),
        (answer("def wanted(a):\n    return (1"), "could not be parsed: '(' was never closed"),
        (answer("def wanted(a):\n    return '\0'"), "could not be parsed"),
        (answer("def wanted(a):\n    return " + "(" * 5000), "could not be parsed"),
        ("The function def is class work", "could not be parsed"),
    ],
)
def test_what_is_no_answer_is_told(reply, told):
    with pytest.raises(ToolError, match=r"^Your response (did not|could not)") as raised:
        put(reply, "wanted")
    assert told in str(raised.value)


def test_a_method_of_a_class_that_is_not_there_is_told_of_the_code_block():
    with pytest.raises(ToolError, match=r"could not be parsed: the code block does not fit, as .* has no class `Cup`"):
        put(answer("def area(self):\n    return 1"), "Cup.area")


def test_a_property_with_a_setter_gives_its_first_part():
    getter = "class Box:\n    @property\n    def area(self):\n        return 1\n"
    setter = "    @area.setter\n    def area(self, x):\n        pass\n"
    result = put(answer(f"{getter}\n{setter}"), "Box.area")
    assert "return 1" in result and "setter" not in result
