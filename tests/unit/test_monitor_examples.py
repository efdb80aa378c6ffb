"""Answers that bind the arguments of a statement's examples to their results, and what a statement shows."""

from __future__ import annotations

from composer_replication.environments.code.episodes.shown_examples import shown_examples

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


def test_examples_of_the_statement_are_calls_of_its_symbols_with_constants():
    assert list(shown_examples(STATEMENT, frozenset({"plural"}))) == [
        ("'octopus'", "'octopi'"),
        ("'ox'", "'Oxen'"),
        ("('ox', True)", "'Oxen'"),
        ("'mouse'", "'mice'"),
        ("''", "''"),
        ("'day'", "'days'"),
    ]
