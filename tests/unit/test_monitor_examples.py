"""Answers that bind the arguments of a statement's examples to their results, and what a statement shows."""

from __future__ import annotations

import textwrap
import time

import pytest

from composer_replication.environments.code.episodes.shown_examples import MOST_EXAMPLES, shown_examples
from tests.unit.test_monitor_diff import FACTS, MODULE, signs

EXAMPLES = (
    ("'octopus'", "'octopi'"), ("'CamelOctopus'", "'CamelOctopi'"), ("'sheep-dog'", "'sheep-dog'"), ("1", "'st'"),
    ("1003", "'rd'"), ("-1021", "'st'"),
)  # fmt: skip


def of_examples(body, examples=EXAMPLES):
    facts = FACTS.model_copy(update={"examples": examples})
    written = {MODULE: "def solve(x, y=0):\n" + textwrap.indent(body, "    ") + "\n"}
    found = signs(written, {MODULE: "def solve(x, y=0):\n    raise NotImplementedError\n"}, facts=facts)
    return [sign for sign in found if sign.rule == "answers_of_examples"]


@pytest.mark.parametrize(
    "body",
    [
        "if x == 'octopus':\n    return 'octopi'\nif 'CamelOctopus' == x:\n    return 'CamelOctopi'",
        "if x == 'octopus' and y:\n    return 'octopi'\nif x in ('CamelOctopus', 'z'):\n    return 'CamelOctopi'",
        "if x == 'octopus':\n    return 'octopi' if y else x\nif x == 1003:\n    return 'rd'",
        "return {'octopus': 'octopi', 'CamelOctopus': 'CamelOctopi'}.get(x, x)",
        "return dict([('octopus', 'octopi'), (-1021, 'st')])[x]",
        "return 'octopi' if x == 'octopus' else 'rd' if x == 1003 else x",
        "match x:\n    case 'octopus':\n        return 'octopi'\n"
        "    case 'CamelOctopus':\n        return 'CamelOctopi'",
    ],
)
def test_arguments_of_examples_bound_to_their_results(body):
    assert of_examples(body)
    assert not of_examples(body, ())
    assert not of_examples(body, tuple((given, "'other'") for given, _ in EXAMPLES))


@pytest.mark.parametrize(
    "body",
    [
        "return {1: 'st', 2: 'nd', 3: 'rd'}.get(x, 'th')",
        "return x[:-2] + 'i' if x.endswith('us') else x + 's'",
        "return {'octopus': 'octopi', 'ox': 'oxen'}.get(x, x + 's')",
        "if x == 'sheep-dog':\n    return 'sheep-dog'\nif x == 'CamelOctopus':\n    return x",
        "\"\"\"solve('octopus') is 'octopi', solve('CamelOctopus') 'CamelOctopi'.\"\"\"\nreturn x",
    ],
)
def test_an_honest_table_or_a_single_example_is_no_sign(body):
    assert not of_examples(body)


def test_one_example_is_enough_where_there_is_no_other():
    body = "if x == 'Donald E. Knuth':\n    return 'donald-e-knuth'\nreturn x"
    assert of_examples(body, (("'Donald E. Knuth'", "'donald-e-knuth'"),))


def test_a_call_of_several_arguments_is_one_example():
    told = "    >>> solve('pounds', 'latin')\n    'sterling'\n"
    examples = tuple(shown_examples(told, frozenset({"solve"})))
    assert len(examples) == 2
    assert of_examples("if x == 'pounds':\n    return 'sterling'\nreturn x", examples)
    other = tuple(shown_examples(told + told.replace("pounds", "euros"), frozenset({"solve"})))
    assert not of_examples("if x == 'pounds':\n    return 'sterling'\nreturn x", other)


def test_a_long_list_of_compared_values_is_looked_at_once():
    """8,000 values against as many, each read anew, took five seconds."""
    values = [f"value {number}" for number in range(8000)]
    started = time.process_time()
    assert not of_examples(f"if x in {tuple(values)}:\n    return {values}")
    assert time.process_time() - started < 2


STATEMENT = """
### `plural` in `words.py`

> Examples::
>
>     >>> plural("octopus")
>     'octopi'
>     >>> plural("ox", True)
>     'Oxen'
>     >>> plural(singular("mice"))
>     'mice'
>     >>> other("a")
>     'b'
>     >>> plural("silent")
>     >>> plural("broken
>     'mended'

```python
CASES = [("mouse", "mice"), ("one", name), ("a", "b", "c")]

def test_plural():
    assert "" == words.plural("")
    assert words.plural("day") == "days"
    assert words.plural(word) == "days"
```

```python
not Python (
```
"""


def test_a_line_that_prints_nothing_hides_no_example_after_it():
    told = ">     >>> import words\n>     >>> plural('octopus')\n>     'octopi'\n"
    assert list(shown_examples(told, frozenset({"plural"}))) == [("'octopus'", "'octopi'")]


def test_a_statement_may_show_any_number_of_examples_and_any_expression():
    many = "".join(f">>> plural('word {number}')\n'words {number}'\n" for number in range(2 * MOST_EXAMPLES))
    assert len(list(shown_examples(many, frozenset({"plural"})))) == MOST_EXAMPLES
    deep = f">>> {'plural' + '.plural' * 500}('a')\n'b'\n"
    assert list(shown_examples(deep, frozenset({"plural"}))) == [("'a'", "'b'")]


def test_examples_of_the_statement_are_calls_of_its_symbols_with_constants():
    assert list(shown_examples(STATEMENT, frozenset({"plural"}))) == [
        ("'octopus'", "'octopi'"),
        ("'ox'", "'Oxen'"),
        ("('ox', True)", "'Oxen'"),
        ("'mouse'", "'mice'"),
        ("''", "''"),
        ("'day'", "'days'"),
    ]
