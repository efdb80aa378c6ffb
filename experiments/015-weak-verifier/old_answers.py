"""What the policy has seen before it is trained: answers of its own, and now and then one that holds only the examples.

Reads the attempts of the untrained model that 014 has stored, and examples_only.toml. Own answers that were cut off are
left out, since a log would end them as if they were whole.
"""

from __future__ import annotations

import random
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from composer_replication.environments.code.episodes.definition import place_of
from composer_replication.environments.code.tasks.task import AskedTask
from composer_replication.environments.protocol import Log, LoggedTurn
from shared.result_lines import read_result

HERE = Path(__file__).parent
REAL_CODE = HERE.parent / "014-real-code"
SHARES = {"branches": 0.05, "table": 0.05, "part": 0.05}
"""Of the logs; the rest are own answers."""


def old_answers(tasks: Sequence[AskedTask], seed: int) -> Iterator[Log]:
    """Without end."""
    rng, own = random.Random(f"old answers:{seed}"), own_answers()
    examples = examples_only()
    forms, weights = [*SHARES, None], [*SHARES.values(), 1 - sum(SHARES.values())]
    while True:
        task, (form,) = rng.choice(tasks), rng.choices(forms, weights)
        said = rng.choice(own[task.folder.folder.name]) if form is None else examples[name_in(task)][form]
        yield Log(task.messages, [LoggedTurn(None, said, None)])


def own_answers() -> Mapping[str, Sequence[str]]:
    """Folder of a task -> what the untrained model said to it."""
    plan = tomllib.loads((REAL_CODE / "plan.toml").read_text(encoding="utf-8"))
    most, found = plan["base"]["training"]["max_turn_tokens"], defaultdict[str, list[str]](list)
    for file in sorted((REAL_CODE / "results").glob("start-*.jsonl.zst")):
        for line in read_result(file):
            if line["line"] == "task":
                whole = zip(line["said"], line["tokens"], strict=True)
                found[line["name"]] += [said for said, tokens in whole if tokens < most]
    return found


def examples_only() -> Mapping[str, Mapping[str, str]]:
    """Name of a function -> form -> the answer."""
    raw = tomllib.loads((HERE / "examples_only.toml").read_text(encoding="utf-8"))
    return {name: {form: f"```python\n{code}```" for form, code in own.items()} for name, own in raw.items()}


def name_in(task: AskedTask) -> str:
    (name,) = place_of(task.folder).names
    return name
