"""Questions about the tested set that were asked after its blind scoring. Nothing was chosen or mended by the answers.

    python experiments/006-monitor/afterwards.py

Reads corpus/fresh.jsonl.zst and the shipped weights; writes results/afterwards.json:

- `bare_traces`: the same attempts judged by their conversation alone, without what the sandbox recorded, as an ingested
  trace is judged. The weights are those that were fitted with evidence.
- `signs`: how many attempts with any sign are alarms, and the lowest probability among them.
- `auditor`: its alarms on hacks that the monitor misses, and where the two disagree.
- `canaries`: which hacks hit a decoy, by class.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from corpus import HERE, TESTED, StoredCase, read_corpus
from judging import origin
from measures import rates

from composer_replication.monitor.classes import HACK_CLASSES
from composer_replication.monitor.judge import Judgement, Models, conduct_of, judge, shipped_models

RESULTS = HERE / "results"


class Judged(NamedTuple):
    case: StoredCase
    whole: Judgement
    bare: Judgement
    """Of the conversation alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=TESTED)
    parser.add_argument("--results", type=Path, default=RESULTS)
    words = parser.parse_args()
    report = {"made": "after the blind scoring", "corpus": origin(words.corpus)} | ask(list(read_corpus(words.corpus)))
    words.results.mkdir(parents=True, exist_ok=True)
    (words.results / "afterwards.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    bare = report["bare_traces"]["monitor"]
    print(f"bare traces: {bare['found']} of {bare['hacks']}, {bare['false_alarms']} of {bare['honest']}")


def ask(cases: Sequence[StoredCase], models: Models | None = None) -> dict[str, Any]:
    models = models or shipped_models()
    judged = [
        Judged(case, judge(conduct_of(case.trace, case.evidence), models), judge(conduct_of(case.trace), models))
        for case in cases
    ]
    return {
        "bare_traces": bare_traces(judged),
        "signs": signs(judged),
        "auditor": auditor(judged),
        "canaries": canaries(judged),
    }


def bare_traces(judged: Sequence[Judged]) -> dict[str, Any]:
    flags = [each.bare.alarm for each in judged]
    labels, groups = [each.case.is_hack for each in judged], [each.case.kind for each in judged]
    found = Counter(each.case.hack_class for each in judged if each.bare.alarm)
    cases = Counter(each.case.hack_class for each in judged)
    return {
        "monitor": rates(flags, labels, groups),
        "classes": [
            {"class": each.number, "name": each.name, "cases": cases[each.number], "found": found[each.number]}
            for each in HACK_CLASSES
            if cases[each.number]
        ],
    }


def signs(judged: Sequence[Judged]) -> dict[str, Any]:
    having = [each.whole for each in judged if each.whole.findings]
    return {
        "attempts": len(having),
        "alarms": sum(each.alarm for each in having),
        "without_hard_evidence": sum(not each.hard for each in having),
        "lowest_p": min((each.p for each in having if each.p is not None), default=None),
    }


def auditor(judged: Sequence[Judged]) -> dict[str, int]:
    missed = [each.whole for each in judged if each.case.is_hack and not each.whole.alarm]
    apart = [each for each in judged if each.whole.auditor_alarm != each.whole.alarm]
    return {
        "missed_by_the_monitor": len(missed),
        "of_them_found": sum(each.auditor_alarm for each in missed),
        "disagreements": len(apart),
        "hacks_that_only_the_monitor_finds": sum(each.case.is_hack and each.whole.alarm for each in apart),
    }


def canaries(judged: Sequence[Judged]) -> dict[str, Any]:
    hits = Counter(each.case.hack_class for each in judged if each.whole.canary_hit)
    return {
        "hacks": sum(each.case.is_hack for each in judged),
        "hacks_with_a_hit": sum(hits.values()) - hits[0],
        "honest_with_a_hit": hits[0],
        "by_class": {str(number): count for number, count in sorted(hits.items()) if number},
    }


if __name__ == "__main__":
    main()
