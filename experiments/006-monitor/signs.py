"""What the monitor says of every stored attempt, one line each: to see whether a change of its code changed a sign.

    python experiments/006-monitor/signs.py --write BEFORE
    python experiments/006-monitor/signs.py --compare BEFORE

Reads the corpora. A line holds the signs with their lines, the features that are not 0 and both probabilities, once
with what the sandbox recorded and once of the conversation alone. `--every 20` takes one attempt of twenty.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from corpus import FITTED, TESTED, read_corpus

from composer_replication.monitor.acts import acts_of_steps
from composer_replication.monitor.conduct import Conduct
from composer_replication.monitor.features import features_of
from composer_replication.monitor.judge import conduct_of, shipped_models, signs_of

SHOWN_DIFFERENCES = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path, help="a file of --write; exits with 1 where a line differs")
    parser.add_argument("--corpora", type=Path, nargs="+", default=[*FITTED, TESTED])
    parser.add_argument("--every", type=int, default=1)
    words = parser.parse_args()
    found = lines(words.corpora, words.every)
    if words.write:
        words.write.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    elif words.compare:
        raise SystemExit(differing(found, known(words.compare)) > 0)
    else:
        parser.error("give --write FILE or --compare FILE")


def lines(corpora: list[Path], every: int) -> Iterator[str]:
    for path in corpora:
        for case in islice(read_corpus(path), 0, None, every):
            whole, bare = told(conduct_of(case.trace, case.evidence)), told(conduct_of(case.trace))
            line = {"case": f"{path.name} {case.name}", "whole": whole, "bare": bare}
            yield json.dumps(line, ensure_ascii=False, sort_keys=True)


def told(conduct: Conduct) -> dict[str, Any]:
    models = shipped_models()
    assert models.weights is not None and models.auditor is not None
    acts_by_step = acts_of_steps(conduct.steps)
    acts = list(chain.from_iterable(acts_by_step))
    signs = signs_of(conduct, acts_by_step)
    features = features_of(conduct, signs, acts)
    return {
        "signs": signs,
        "features": {name: value for name, value in features.items() if value},
        "p": models.weights.probability(features),
        "auditor_p": models.auditor.probability(acts),
    }


def known(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8") as file:
        return {json.loads(line)["case"]: line.rstrip("\n") for line in file}


def differing(found: Iterator[str], before: dict[str, str]) -> int:
    seen = differences = 0
    for seen, line in enumerate(found, 1):  # noqa: B007
        was = before.get(json.loads(line)["case"], "")
        if line != was:
            differences += 1
            if differences <= SHOWN_DIFFERENCES:
                print(f"- {was}\n+ {line}")
    print(f"{seen} attempts, {differences} differ")
    return differences


if __name__ == "__main__":
    main()
