"""One spelling per call: what is the same, and what must stay apart."""

from __future__ import annotations

import time

import pytest

from composer_replication.pairs.canonical import canonical_action, critical_key, file_path, parse_action, shell_command
from composer_replication.records import canonical_call


def tool(name: str, required: list[str] | None = None, **properties):
    parameters = {"type": "object", "properties": properties, "required": required or []}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def same(tools, one, other, name="f", mend=True) -> bool:
    spellings = {canonical_action(canonical_call(name, arguments), tools, mend) for arguments in (one, other)}
    return len(spellings) == 1


@pytest.mark.parametrize(
    ("schema", "one", "other"),
    [
        (NUMBER, 1.0, 1), (NUMBER, "3", 3), (NUMBER, "3.0", 3), (NUMBER, "-2.5", -2.5), (INTEGER, "3", 3),
        (INTEGER, 3.0, 3), ({"type": ["integer", "null"]}, "7", 7),
        ({"type": "array", "uniqueItems": True, "items": NUMBER}, [2, 1.0], [1, 2]),
        ({"type": "object", "properties": {"n": NUMBER}}, {"n": 1.0}, {"n": 1}),
        ({"type": "array", "items": {"type": "object", "properties": {"n": NUMBER}}}, [{"n": 2.0}], [{"n": 2}]),
    ],
)  # fmt: skip
def test_the_schema_says_that_these_are_the_same(schema, one, other):
    assert same([tool("f", x=schema)], {"x": one}, {"x": other})


@pytest.mark.parametrize(
    ("schema", "one", "other"),
    [
        (STRING, "3", 3), (STRING, "1.0", "1"), ({}, 1.0, 1), (INTEGER, "3.5", 3.5), (INTEGER, "03", 3),
        (INTEGER, " 3", 3), (NUMBER, True, 1), (NUMBER, "1e3", 1000), ({"type": ["string", "number"]}, "3", 3),
        (NUMBER, 1e300, 10**300), (NUMBER, "0.1234567890123456", 0.1234567890123456), (NUMBER, -0.0, 0),
        ({"type": "array", "items": NUMBER}, [2, 1], [1, 2]),
        ({"type": "array", "uniqueItems": True}, [1, 1], [1]),
        ({"anyOf": [NUMBER, STRING]}, "3", 3),
    ],
)  # fmt: skip
def test_the_schema_does_not_say_that_these_are_the_same(schema, one, other):
    assert not same([tool("f", x=schema)], {"x": one}, {"x": other})


def test_wrong_types_are_mended_for_votes_only():
    assert not same([tool("f", x=INTEGER)], {"x": "3"}, {"x": 3}, mend=False)
    assert not same([tool("f", x=INTEGER)], {"x": 3.0}, {"x": 3}, mend=False)
    assert same([tool("f", x=NUMBER)], {"x": 3.0}, {"x": 3}, mend=False)


def test_an_argument_that_repeats_its_default_counts_as_absent():
    tools = [tool("f", ["must"], limit={"type": "integer", "default": 10}, must={"type": "integer", "default": 1})]
    assert same(tools, {"must": 5, "limit": 10}, {"must": 5})
    assert same(tools, {"must": 5, "limit": "10"}, {"must": 5})
    assert not same(tools, {"must": 5, "limit": 11}, {"must": 5})
    assert not same(tools, {"must": 1}, {})  # the tool asks for it
    flags = [tool("f", flag={"type": "boolean", "default": True})]
    assert not same(flags, {"flag": 1}, {})


def test_other_tools_schemas_do_not_count():
    assert not same([tool("g", x=NUMBER)], {"x": "3"}, {"x": 3})


@pytest.mark.parametrize(
    ("spelt", "path"),
    [
        ("./a//b", "a/b"), ("a/./b", "a/b"), ("././a", "a"), ("/a//b/", "/a/b/"), ("///a", "/a"), ("./-rf", "./-rf"),
        ("./~/x", "./~/x"), ("~//x", "~/x"),
    ],
)  # fmt: skip
def test_paths(spelt, path):
    assert file_path(spelt) == path


@pytest.mark.parametrize(
    "path",
    ["a/../b", "a/", "a/.", ".", "./", "/", "//", "//host/x", "", "https://h//x", "C:\\a\\.\\b", " ./a", "a/b "],
)
def test_paths_that_may_mean_something_else_stay(path):
    assert file_path(path) == path


def test_only_path_arguments_are_paths():
    assert same([], {"file_path": "./a"}, {"file_path": "a"})
    assert not same([], {"text": "./a"}, {"text": "a"})
    assert same([tool("f", where={"type": "string", "format": "path"})], {"where": "./a"}, {"where": "a"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ls  -la ", "ls -la"), ('grep "a b" x.py', "grep 'a b' x.py"), ("cat 'x.py'", "cat x.py"),
        ('echo "it\'s"', "echo it\"'\"s"), ("git commit -m 'x y'", 'git commit -m "x y"'), ("\npytest\n", "pytest"),
    ],
)  # fmt: skip
def test_simple_commands_have_one_quoting_style(one, other):
    assert same([], {"command": one}, {"command": other}, name="Bash")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ls *.py", "ls '*.py'"), ('echo "$HOME"', "echo '$HOME'"), ("echo ~", "echo '~'"), ("A=1 ls", "'A=1' ls"),
        ("'ls' x", "ls x"), ("echo a#b", "echo 'a#b'"), ("a | b", "'a' | b"), ("echo {a,b}", "echo '{a,b}'"),
        ('echo "a!b"', "echo 'a!b'"), ("echo a\\ ", "echo a\\"), ("cat <<E\nx\nE ", "cat <<E\nx\nE"), ("ls\r", "ls"),
        ("echo =ls", "echo '=ls'"), ("time 'ls'", "time ls"), ("echo a; b", "echo 'a;' b"), ("echo a\nls", "echo a ls"),
    ],
)  # fmt: skip
def test_what_a_shell_would_expand_stays(one, other):
    assert not same([], {"command": one}, {"command": other}, name="Bash")


def test_commands_of_other_tools_stay():
    assert not same([], {"command": "ls "}, {"command": "ls"}, name="send_keys")


def test_a_shell_command_keeps_its_words():
    import shlex

    assert shlex.split(shell_command("""grep -n  "it's" 'a "b"' c""")) == ["grep", "-n", "it's", 'a "b"', "c"]


@pytest.mark.parametrize(
    "action",
    [
        None, "", "null", "[]", '"f"', "{",  '{"name":"f"}',
        '{"name":"f","arguments":"{}"}', '{"name":3,"arguments":{}}',
        '{"name":"","arguments":{}}', '{"name":"f","arguments":{"x":NaN}}', '{"name":"f","arguments":{},"id":1}',
        '{"name":"f","arguments":{"x":"\ud800"}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_call(action):
    assert parse_action(action) is None


def test_free_text_is_ignored_at_the_critical_tier_only_where_it_is_marked():
    def key(name, tools=(), **arguments):
        return critical_key(canonical_call(name, arguments), tools)

    assert key("Bash", command="ls", description="look") == key("Bash", command="ls", description="list")
    assert key("Bash", command="ls") != key("Bash", command="pwd")
    assert key("write_file", path="a", content="x") != key("write_file", path="a", content="y")
    assert key("commit", message="x") != key("commit", message="y")
    marked = [tool("commit", message={"type": "string", "x-free-text": True}, files={"type": "array"})]
    assert key("commit", marked, message="x", files=["a"]) == key("commit", marked, message="y", files=["a"])
    assert key("commit", marked, message="x", files=["a"]) != key("commit", marked, message="x", files=["b"])
    critical = [tool("search", query={"type": "string", "x-critical": True}, page=INTEGER)]
    assert key("search", critical, query="q", page=1) == key("search", critical, query="q", page=2)


def test_the_tools_name_alone_is_no_key():
    assert critical_key(canonical_call("Bash", {"description": "look"}), ()) is None
    assert critical_key(canonical_call("f", {}), ()) is None


@pytest.mark.parametrize("piece", ["a", "'a'", '"a"', "a'b'", " a", "' ", "a ", "'a' \"b\" "])
def test_a_long_command_that_is_no_simple_one_is_read_in_time(piece):
    for length in (30, 100_000):
        command = "ls " + piece * (length // len(piece)) + " | head"
        started = time.process_time()
        assert shell_command(command) == command
        assert time.process_time() - started < 1
