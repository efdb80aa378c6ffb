"""Cutting statements, list items and bodies out of generated modules leaves every other byte where it was."""

import ast
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.environments.code.generators.feature_deletion.splices import STUB, InexactEdit, Marks, cut
from composer_replication.environments.code.tasks.symbols import docstring_node, parse_module

COMMENTS = st.sampled_from(["", "# above {n}\n", "# coding is fun {n}\n# two {n}\n"])
SIGNATURES = st.sampled_from(
    ["def f{n}(a, b=(1, {{2: 3}})):", "async def f{n}(a):  # c{n}", "def f{n}(\n    a: int,  # a{n}\n    b,\n) -> int:"]
)
DOCSTRINGS = st.sampled_from(
    ["", "    'doc {n}'\n", '    """Long {n}.\n\n  odd indent {n}\n    """\n', "    r'é {n}'\n"]
)
BODIES = st.sampled_from(
    [
        "    return {n}\n",
        "    # first {n}\n    x{n} = '''\ntext {n}\n'''\n\n    return x{n}\n    # last {n}\n",
        "    if {n}:\n        y{n} = [\n            {n},\n        ]\n    else:\n        pass  # {n}\n",
        "    def inner{n}():\n        return {n}\n\n    return inner{n}\n",
        "    yield {n}; yield -{n}\n",
    ]
)
PLAIN = st.sampled_from(
    [
        "v{n} = {n}\n",
        "t{n} = '''\n\x0cdef fake(): {n}\n'''\n",
        "if {n}:\n    w{n} = 1\nelse:\n    w{n} = 2\n",
        "# alone {n}\n\n",
    ]
)
GAPS = st.sampled_from(["", "\n", "\n\n", "    \n\n"])


@dataclass(frozen=True)
class Block:
    """A stretch of a module: its text, and whether it is a function. Numbers make its lines its own."""

    text: str
    gap: str
    is_function: bool


@st.composite
def functions(draw):
    decorator = draw(st.sampled_from(["", "@d{n}\n", "@d{n}(\n    'é',\n)\n"]))
    parts = [COMMENTS, st.just(decorator), SIGNATURES, st.just("\n"), DOCSTRINGS, BODIES]
    return Block("".join(draw(part) for part in parts), draw(GAPS), True)


@st.composite
def modules(draw):
    blocks = draw(st.lists(functions() | st.builds(Block, PLAIN, GAPS, st.just(False)), min_size=1, max_size=7))
    numbered = [Block(each.text.format(n=100 + n), each.gap, each.is_function) for n, each in enumerate(blocks)]
    indent = draw(st.sampled_from(["", "class C:\n", "try:\n"]))
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    return numbered, indent, line_end


def assembled(blocks, opening, line_end):
    text = "".join(block.text + block.gap for block in blocks)
    if opening:
        text = opening + "".join("    " + line if line.strip() else line for line in text.splitlines(keepends=True))
        text += "    last = 1\n" + ("finally:\n    pass\n" if opening.startswith("try") else "")
    return text.replace("\n", line_end)


def own_lines(block, module):
    """Lines of the module that hold the number of the block."""
    number = next(part for part in range(100, 120) if str(part) in block.text)
    return [line for line in module.lines if str(number) in line]


def function_nodes(module):
    nodes = [node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: node for node in nodes if node.name.startswith("f1")}


@settings(max_examples=150, deadline=None)
@given(modules(), st.randoms(use_true_random=False))
def test_removed_functions_leave_every_other_line(built, random):
    blocks, opening, line_end = built
    module = parse_module("m.py", assembled(blocks, opening, line_end))
    chosen = {name: node for name, node in function_nodes(module).items() if random.random() < 0.5}
    after = parse_module("m.py", cut(module, Marks(statements=set(chosen.values()))))
    for number, block in enumerate(blocks, start=100):
        lines = own_lines(block, module)
        if f"f{number}" in chosen:
            assert not any(str(number) in line for line in after.lines)
        else:
            assert [line for line in after.lines if str(number) in line] == lines
    kept = [line for line in module.lines if line in set(after.lines)]
    assert is_subsequence(list(after.lines), kept)


def is_subsequence(short, long):
    left = iter(long)
    return all(line in left for line in short)


@settings(max_examples=150, deadline=None)
@given(modules(), st.booleans())
def test_emptied_functions_keep_the_rest_and_what_they_promise(built, documented):
    blocks, opening, line_end = built
    module = parse_module("m.py", assembled(blocks, opening, line_end))
    before = function_nodes(module)
    after = parse_module("m.py", cut(module, Marks(stubs=dict.fromkeys(before.values(), documented))))
    emptied = function_nodes(after)
    assert list(emptied) == list(before)
    for name, node in emptied.items():
        assert ast.unparse(node.args) == ast.unparse(before[name].args)
        assert ast.unparse(node.body[-1]) == STUB
        doc = docstring_node(before[name])
        assert len(node.body) == (2 if documented and doc else 1)
        if documented and doc:
            assert ast.get_docstring(node, clean=False) == ast.get_docstring(before[name], clean=False)
    for block in blocks:
        if not block.is_function:
            lines = own_lines(block, module)
            assert is_subsequence(lines, list(after.lines))


LISTS = st.sampled_from(["[{}]", "({},)", "{{{}}}", "[\n    {},\n]", "[\n    {}\n]", "frozenset([{}])"])
SEPARATORS = st.sampled_from([", ", ",", ",\n    ", ",  # why\n    ", " , "])


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 6), LISTS, SEPARATORS, st.data())
def test_items_leave_a_list_and_only_they(count, shape, separator, data):
    names = [f"'name{number}'" for number in range(count)]
    if "\n" in separator and "\n" not in shape:
        shape = "[\n    {},\n]"
    text = "before = 1  \n__all__ = " + shape.format(separator.join(names)) + "  # end\nafter = 2\n"
    module = parse_module("m.py", text)
    container = next(node for node in ast.walk(module.tree) if isinstance(node, ast.List | ast.Tuple | ast.Set))
    dropped = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=count - 1))
    result = cut(module, Marks(items={container: dropped}))
    value = ast.parse(result).body[1]
    left = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    assert left == [f"name{number}" for number in range(count) if number not in dropped]
    assert result.startswith("before = 1  \n__all__ = ")
    assert result.endswith("  # end\nafter = 2\n")


IMPORTS = st.sampled_from(
    [
        "from m import {}",
        "from m import ({})",
        "from m import (\n    {},\n)",
        "from m import (  # why\n    {}\n)",
        "import {}",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 5), IMPORTS, st.data())
def test_names_leave_an_import_and_only_they(count, shape, data):
    names = [f"n{number} as m{number}" if number % 2 else f"n{number}" for number in range(count)]
    separator = data.draw(SEPARATORS) if "\n" in shape else ", "
    module = parse_module("m.py", "import a; import b\n" + shape.format(separator.join(names)) + "\nlast = 1")
    dropped = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=count - 1))
    statement = module.tree.body[2]
    result = ast.parse(cut(module, Marks(items={statement: dropped}))).body[2]
    kept = [alias.name for alias in result.names]
    assert kept == [f"n{number}" for number in range(count) if number not in dropped]


@settings(max_examples=200, deadline=None)
@given(st.text("def f():\n  xy=1;#'\"\\", max_size=40))
def test_any_text_is_cut_exactly_or_refused(tail):
    try:
        module = parse_module("m.py", "def g():\n    pass\n" + tail)
    except (SyntaxError, ValueError):
        return
    node = module.tree.body[0]
    try:
        result = cut(module, Marks(statements={node}))
    except InexactEdit:
        return
    left = [each for each in module.tree.body if each is not node]
    assert [ast.dump(each) for each in ast.parse(result).body] == [ast.dump(each) for each in left]
