"""Scores the detectors of the user's corrections on labelled messages.

    python experiments/010-corrections/score.py SESSIONS MESSAGES LABELS [LABELS] [--reader URL MODEL] [--show]
    python experiments/010-corrections/score.py SESSIONS MESSAGES --questions FILE
    python experiments/010-corrections/score.py SESSIONS MESSAGES LABELS [LABELS] --answers FILE

SESSIONS is a folder of session files, MESSAGES a file of `extract.py` (only its ids are read), LABELS one or two files
of labellers. Prints precision and recall with Wilson's 95 % interval for the rules, and for the reader model where a
server is named. With two labellers, the rows on which they agree are scored, then each labeller's own labels. A model
that no server offers is asked by file: `--questions` writes what the reader would send, `--answers` takes what came
back, `{"id", "answer"}` a line, and checks it as the reader does.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from extract import identified, read_traces

from composer_replication.config import SitesConfig
from composer_replication.records import Trace
from composer_replication.sites.corrections import corrections
from composer_replication.sites.gold import wilson
from composer_replication.sites.reader import LLMSiteReader, open_reader
from composer_replication.sites.reader_prompt import ReaderQuestion, read_answer
from composer_replication.sites.spoken import MAX_CHARS

CORRECTION = "correction"


def ids_in(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def labels_in(path: Path) -> dict[str, str]:
    return {row["id"]: row["label"] for row in map(json.loads, path.read_text().splitlines())}


def by_rules(trace: Trace) -> set[int]:
    return {found.said.message for found in corrections(trace)}


def by_reader(reader: LLMSiteReader) -> Callable[[Trace], set[int]]:
    return lambda trace: {said.message for said in reader.corrections(trace)}


def questions(traces: list[Trace]) -> dict[str, ReaderQuestion]:
    """What the reader asks about each message that follows a turn."""
    return {
        name: ReaderQuestion.of(trace, said.turn, said.text[:MAX_CHARS])
        for name, trace, said in identified(traces)
        if said.turn is not None
    }


def write_questions(path: Path, asked: dict[str, ReaderQuestion]) -> None:
    lines = [
        json.dumps({"id": name, "messages": question.request("-")["messages"]}) for name, question in asked.items()
    ]
    path.write_text("".join(f"{line}\n" for line in lines))


def answered(path: Path, asked: dict[str, ReaderQuestion]) -> tuple[set[str], Counter[str]]:
    """Ids that a model took for a correction, and how many of its answers were refused."""
    found: set[str] = set()
    refused: Counter[str] = Counter()
    for row in map(json.loads, path.read_text().splitlines()):
        verdict = read_answer(row["answer"], asked[row["id"]].words)
        refused[verdict.refused or "used"] += 1
        found |= {row["id"]} if verdict.kind else set()
    return found, refused


def detected(traces: list[Trace], detector: Callable[[Trace], set[int]]) -> tuple[set[str], set[str]]:
    """Ids that were found to correct, and all ids."""
    messages = {trace.trace_id: detector(trace) for trace in traces}
    every = [(name, said.message in messages[trace.trace_id]) for name, trace, said in identified(traces)]
    return {name for name, corrects in every if corrects}, {name for name, _ in every}


def kappa(pairs: list[tuple[str, str]]) -> float:
    agreed = sum(first == second for first, second in pairs) / len(pairs)
    first, second = (Counter(column) for column in zip(*pairs, strict=True))
    chance = sum(first[name] * second[name] for name in first) / len(pairs) ** 2
    return (agreed - chance) / (1 - chance)


def line(name: str, found: set[str], truth: dict[str, bool]) -> str:
    wanted = {key for key, corrects in truth.items() if corrects}
    taken = found & truth.keys()
    figures = [wilson(len(taken & wanted), len(whole)) for whole in (taken, wanted)]
    shown = [f"{f['mean']:.3f} [{f['lo']:.3f}, {f['hi']:.3f}]" if f["n"] else "none" for f in figures]
    return f"{name:28s} {len(truth):8d} {len(wanted):11d} {len(taken):7d}   {shown[0]:22s} {shown[1]}"


def truths(ids: Iterable[str], given: list[dict[str, str]]) -> dict[str, dict[str, bool]]:
    says = [{key: labels[key] == CORRECTION for key in ids} for labels in given]
    if len(says) == 1:
        return {"labels": says[0]}
    agreed = {key: value for key, value in says[0].items() if says[1][key] == value}
    return {"both labellers agree": agreed, "labeller 1": says[0], "labeller 2": says[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions", type=Path)
    parser.add_argument("messages", type=Path)
    parser.add_argument("labels", type=Path, nargs="*")
    parser.add_argument("--reader", nargs=2, metavar=("URL", "MODEL"))
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--show", action="store_true", help="name the messages that were missed or wrongly taken")
    options = parser.parse_args()
    ids, given = ids_in(options.messages), [labels_in(path) for path in options.labels]
    traces = read_traces(options.sessions)
    asked = {name: question for name, question in questions(traces).items() if name in ids}
    if options.questions:
        write_questions(options.questions, asked)
        return
    found, known = detected(traces, by_rules)
    print(f"{len(ids)} messages, {len(set(ids) - known)} of them no longer taken for a user's")
    if len(given) == 2:
        pairs = [(given[0][key], given[1][key]) for key in ids]
        two = [(str(a == CORRECTION), str(b == CORRECTION)) for a, b in pairs]
        print(f"kappa of two labellers {kappa(two):.3f} (correction or not), {kappa(pairs):.3f} (all labels)")
    print(f"{'':28s} {'messages':>8s} {'corrections':>11s} {'found':>7s}   {'precision [95 %]':22s} recall [95 %]")
    for name, truth in truths(ids, given).items():
        print(line(f"rules, {name}", found, truth))
        if options.show:
            print(*(f"  missed {key}" for key, value in truth.items() if value and key not in found), sep="\n")
            print(*(f"  wrong  {key}" for key, value in truth.items() if not value and key in found), sep="\n")
    if options.answers:
        read, refused = answered(options.answers, asked)
        for name, truth in truths(ids, given).items():
            print(line(f"answers, {name}", read, truth))
            print(line(f"rules or answers, {name}", read | found, truth))
        print("answers", dict(refused), "of", len(asked), "asked")
    if options.reader:
        settings = SitesConfig(reader_base_url=options.reader[0], reader_model=options.reader[1])
        with tempfile.TemporaryDirectory() as folder, open_reader(settings, Path(folder)) as reader:
            assert reader is not None
            read, _ = detected(traces, by_reader(reader))
            for name, truth in truths(ids, given).items():
                print(line(f"reader, {name}", read, truth))
                print(line(f"rules or reader, {name}", read | found, truth))
            print(json.dumps(reader.tally.counts()))


if __name__ == "__main__":
    main()
