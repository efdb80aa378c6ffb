"""Canonical spelling and agreement, for any call."""

from __future__ import annotations

import re
import shlex

from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.pairs.canonical import (
    SIMPLE_COMMAND,
    canonical_action,
    critical_key,
    file_path,
    shell_command,
)
from composer_replication.records import canonical_call

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=8) | st.sampled_from(["3", "1.0", "./a//b", "ls  'a b' ", "-0", "10", "a/./b/", "x "])
values = st.recursive(scalars | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner))
names = st.sampled_from(["path", "command", "x", "n"])
types = st.sampled_from(["string", "number", "integer", "boolean", "array", "object", ["integer", "null"]])
leaf = st.fixed_dictionaries(
    {}, optional={"type": types, "default": scalars | texts, "uniqueItems": st.booleans(), "x-critical": st.booleans()}
)
schemas = st.recursive(
    leaf,
    lambda inner: st.fixed_dictionaries(
        {"type": types}, optional={"items": inner, "properties": st.dictionaries(names, inner, max_size=2)}
    ),
    max_leaves=4,
)
parameters = st.fixed_dictionaries(
    {"properties": st.dictionaries(names, schemas)}, optional={"required": st.lists(names)}
)
tools = parameters.map(lambda found: [{"function": {"name": "Bash", "parameters": found}}])
calls = st.dictionaries(names, values).map(lambda arguments: canonical_call("Bash", arguments))


@settings(max_examples=300, deadline=None)
@given(calls, tools, st.booleans())
def test_the_canonical_spelling_is_its_own_canonical_spelling(action, listed, mend):
    once = canonical_action(action, listed, mend)
    assert canonical_action(once, listed, mend) == once


@settings(max_examples=200, deadline=None)
@given(calls, tools)
def test_the_same_canonical_call_has_the_same_critical_key(action, listed):
    assert critical_key(canonical_action(action, listed), listed) == critical_key(action, listed)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab ./-~\\:", max_size=12))
def test_a_path_stays_the_same_place(path):
    import posixpath

    short = file_path(path)
    assert file_path(short) == short
    assert posixpath.normpath(short) == posixpath.normpath(path)
    assert short.endswith("/") == path.endswith("/")


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="ab =$*'\"\\~#;|-.\n\t", max_size=14))
def test_a_command_keeps_its_words(command):
    def words(text):
        try:
            return shlex.split(text)
        except ValueError:
            return None

    short = shell_command(command)
    assert shell_command(short) == short
    assert words(short) == words(command)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_what_is_no_call_stays_as_it_is(text):
    assert canonical_action(text, []) == text or text.startswith("{")


@settings(max_examples=1000, deadline=None)
@given(st.text(alphabet="ab =$'\"|\t", max_size=14))
def test_a_simple_command_is_pieces_of_words_in_any_number(command):
    """The plain way to say it, which takes exponential time on long words."""
    piece = r"(?:[A-Za-z0-9_@%+:,./=-]+|'[^']*'|\"[^\"$`\\!]*\")"
    plain = re.compile(rf"[A-Za-z0-9_./+-]+(?:[ \t]+{piece}+)*")
    assert bool(SIMPLE_COMMAND.fullmatch(command)) == bool(plain.fullmatch(command))
