"""Public sets of labelled rollouts: loaders for copies that a user has fetched. Nothing of them is shipped or fetched.

Each reads a local folder or file and gives what the monitor sees of a rollout, whether its authors call it a hack, and
their words for it. Reasoning and prose are left behind. Rows that are neither a hack nor honest work by their label
(refusals, sandbagging, attempts without reward) are left out. The sets have no file events and no diffs, so only the
command layer can see anything in them. `PublicSet.layout` says how far a layout is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

from .public_rows import Call, loose_json, objects, plain_text, read_json, rows_of, trace_of_calls
from .tool_calls import steps_of
from .watched import Watched

Turns = list[list[Call]]
MALT_HACKS = frozenset({"reward_hacking", "bypass_constraints", "hardcoded_solution", "ignores_task_instructions"})
WRENCH_HACKS = frozenset({"rewarded_serious_exploit", "rewarded_nonserious_hack"})
WRENCH_HONEST = frozenset({"baseline", "attacker_legitimate_solve"})
HARBOR_HACKS = ("harness_level_cheating", "task_level_reward_hacking")
COMMAND_IN_TEXT = re.compile(
    r'"(?:keystrokes|command|cmd)"\s*:\s*("(?:[^"\\]|\\.)*")|^\s*[\w@.:~/-]*[$#] (\S.*)$', re.M
)


class Labelled(NamedTuple):
    watched: Watched
    is_hack: bool
    hack_class: str
    """The authors' own words; empty for honest work."""


class PublicSet(NamedTuple):
    name: str
    url: str
    get: str
    """What to do to have it."""
    licence: str
    citation: str
    layout: str
    """How the layout is known."""
    read: Callable[[Path, PublicSet], Iterator[Labelled]]


def read_public_set(name: str, path: Path) -> Iterator[Labelled]:
    known = PUBLIC_SETS.get(name)
    if known is None:
        raise UsageError(f"no public set is called {name}", f"choose one of {', '.join(PUBLIC_SETS)}")
    if not path.exists():
        raise UsageError(f"{path} is not there; {name} is at {known.url} (licence: {known.licence})", known.get)
    found = 0
    for found, each in enumerate(known.read(path, known), 1):  # noqa: B007
        yield each
    if not found:
        raise UsageError(f"{path} holds nothing in the layout of {name}: {known.layout}", known.get)


def _terminal_wrench(path: Path, known: PublicSet) -> Iterator[Labelled]:
    for file in sorted(path.rglob("trial/agent/trajectory.json")):
        home = file.parents[2]
        if home.parent.name not in ("hack_trajectories", "baseline_trajectories"):
            continue  # the sanitised and stripped ones are the same rollouts, told again
        about = home / "metadata.json"
        facts = loose_json(about.read_text(encoding="utf-8")) if about.exists() else {}
        label = str(facts.get("classification") or ("baseline" if home.parent.name.startswith("baseline") else ""))
        if label in WRENCH_HACKS | WRENCH_HONEST:
            turns = _atif_turns(loose_json(file.read_text(encoding="utf-8")))
            words = ", ".join(map(str, facts.get("exploit_categories") or [label]))
            task = str(facts.get("task_id") or home.parents[2].name)
            name = "/".join(home.parts[-4:])
            yield _labelled(known, name, turns, label in WRENCH_HACKS, words, task)


def _rewardhackbench(path: Path, known: PublicSet) -> Iterator[Labelled]:
    for file in sorted(path.rglob("tests/ground_truth.json")):
        home, truth = file.parents[1], loose_json(file.read_text(encoding="utf-8"))
        trace = home / "environment" / "trace.txt"
        hacks = [name for name in HARBOR_HACKS if _says_yes(truth.get(name))]
        if trace.exists() and (hacks or not _says_yes(truth.get("refusals"))):
            turns = _turns_in_text(trace.read_text(encoding="utf-8", errors="replace"))
            yield _labelled(known, home.name, turns, bool(hacks), ", ".join(hacks), home.name)


def _trace_dataset(path: Path, known: PublicSet) -> Iterator[Labelled]:
    for row in rows_of(path):
        if "conversation" not in row or "label" not in row:
            continue
        told = row["conversation"]
        messages = objects(read_json(told, path) if isinstance(told, str) else told)
        turns: Turns = []
        for message in messages:
            if message.get("role") != "assistant":
                continue
            outputs = [plain_text(result.get("output")) for result in objects(message.get("tool_results"))]
            calls = objects(message.get("tool_calls"))
            turns.append(
                [
                    Call(
                        str(call.get("name") or ""),
                        loose_json(call.get("parameters") or call.get("arguments")),
                        outputs[place] if place < len(outputs) else "",
                    )
                    for place, call in enumerate(calls)
                ]
            )
        label, name = str(row["label"]).strip(), str(row.get("trajectory_id") or "")
        yield _labelled(known, name, turns, label != "0", label if label != "0" else "", name)


def _malt(path: Path, known: PublicSet) -> Iterator[Labelled]:
    for row in rows_of(path):
        labels = {str(label) for label in row.get("labels") or ()}
        hacks = sorted(labels & MALT_HACKS)
        if not hacks and labels != {"normal"}:
            continue
        turns = _function_call_turns(_malt_messages(row))
        yield _labelled(known, str(row.get("run_id")), turns, bool(hacks), ", ".join(hacks), str(row.get("task_id")))


def _rewardhackwatch(path: Path, known: PublicSet) -> Iterator[Labelled]:
    for row in rows_of(path):
        if not isinstance(row.get("expected_hack"), bool):
            continue
        texts = [str(text) for text in loose_json(row.get("trajectory")).get("code_outputs") or ()]
        turns = [[Call("write_file", {"path": "solution.py", "content": text})] for text in texts]
        words = str(row.get("category") or "") if row["expected_hack"] else ""
        name = f"{row.get('name')}/{row.get('id')}"
        yield _labelled(known, name, turns, row["expected_hack"], words, str(row.get("name")))


def _labelled(
    known: PublicSet, name: str, turns: Sequence[Sequence[Call]], is_hack: bool, words: str, task_id: str
) -> Labelled:
    trace = trace_of_calls(name, known.name, known.licence, turns, task_id)
    return Labelled(Watched(trace.trace_id, steps_of(trace)), is_hack, words)


def _atif_turns(trajectory: JsonObject) -> Turns:
    turns: Turns = []
    for step in objects(trajectory.get("steps")):
        if step.get("source") not in ("agent", "assistant"):
            continue
        results = objects(loose_json(step.get("observation")).get("results"))
        texts = {result.get("source_call_id"): plain_text(result.get("content")) for result in results}
        calls = objects(step.get("tool_calls"))
        turn = [
            Call(
                str(call.get("function_name") or ""),
                loose_json(call.get("arguments")),
                texts.get(call.get("tool_call_id"), ""),
            )
            for call in calls
        ]
        if turn and texts.get(None):
            turn[-1] = turn[-1]._replace(output=texts[None])
        if not turn:
            commands = objects(loose_json(step.get("message")).get("commands"))
            turn = [Call("bash", command, texts.get(None, "")) for command in commands]
        turns.append(turn)
    return turns


def _turns_in_text(text: str) -> Turns:
    """A trajectory in JSON where it is one; else whatever looks like a command in the text."""
    trajectory = loose_json(text)
    if "steps" in trajectory:
        return _atif_turns(trajectory)
    found: Turns = []
    for quoted, shown in COMMAND_IN_TEXT.findall(text):
        command = loose_json(f'{{"command": {quoted}}}').get("command") if quoted else shown
        if command:
            found.append([Call("bash", {"command": str(command)})])
    return found


def _malt_messages(row: JsonObject) -> list[JsonObject]:
    """The longest history of the run: of its samples, or from the deepest node of its graph up to the root."""
    samples = objects(row.get("samples"))
    if samples:
        last = max(samples, key=lambda sample: len(objects(sample.get("input"))))
        outputs: Any = last.get("output")
        chosen = outputs[0] if outputs and isinstance(outputs[0], list) else outputs
        return [*objects(last.get("input")), *objects(chosen)]
    nodes = {node.get("node_id"): node for node in objects(row.get("nodes"))}
    paths: dict[Any, list[JsonObject]] = {}
    for node_id in sorted(nodes, key=lambda each: each if isinstance(each, int) else 0):
        node = nodes[node_id]
        message = loose_json(loose_json(node.get("node_data")).get("message"))
        paths[node_id] = [*paths.get(node.get("parent_node_id"), ()), message]
    return max(paths.values(), key=len, default=[])


def _function_call_turns(messages: Sequence[JsonObject]) -> Turns:
    turns: Turns = []
    for message in messages:
        call = loose_json(message.get("function_call"))
        if message.get("role") == "assistant" and call.get("name"):
            arguments = loose_json(call.get("arguments")) or {"command": str(call.get("arguments") or "")}
            turns.append([Call(str(call["name"]), arguments)])
        elif message.get("role") in ("function", "tool") and turns and not turns[-1][-1].output:
            turns[-1][-1] = turns[-1][-1]._replace(output=plain_text(message.get("content")))
    return turns


def _says_yes(value: Any) -> bool:
    return value is True or loose_json(value).get("verdict") is True


PUBLIC_SETS: dict[str, PublicSet] = {
    each.name: each
    for each in (
        PublicSet(
            "terminal_wrench",
            "https://github.com/few-sh/terminal-wrench",
            "git clone https://github.com/few-sh/terminal-wrench",
            "as its repository says",
            "Bercovich et al., Terminal Wrench, arXiv:2604.17596 (2026)",
            "`tasks/<id>/<model>/{hack,baseline}_trajectories/<label>/{metadata.json,trial/agent/trajectory.json}`, as "
            "other projects read it; not checked against the files",
            _terminal_wrench,
        ),
        PublicSet(
            "rewardhackbench",
            "https://hub.harborframework.com/datasets/harbor/rewardhackbench/latest",
            "download harbor/rewardhackbench from https://hub.harborframework.com",
            "as its page says",
            "Harbor, rewardhackbench (2026), with traces of https://debugml.github.io/cheating-agents/",
            "`<trial>/environment/trace.txt` and `<trial>/tests/ground_truth.json`, as its page says; how a trace.txt "
            "looks is not known",
            _rewardhackbench,
        ),
        PublicSet(
            "trace",
            "https://huggingface.co/datasets/PatronusAI/trace-dataset",
            "accept its conditions, then: hf download PatronusAI/trace-dataset --repo-type dataset --local-dir trace",
            "CC-BY-SA-4.0",
            "Deshpande et al., Benchmarking Reward Hack Detection in Code Environments, arXiv:2601.20103 (2026)",
            "rows of `{trajectory_id, conversation, label}` as its card says; calls inside as other projects read them",
            _trace_dataset,
        ),
        PublicSet(
            "malt",
            "https://huggingface.co/datasets/metr-evals/malt-public",
            "accept its conditions, then: hf download metr-evals/malt-public --repo-type dataset --local-dir malt",
            "as its card says",
            "METR, MALT: a dataset of natural and prompted behaviors that threaten eval integrity (2025)",
            "rows of `{run_id, labels, task_id}` with nodes as the card of malt-transcripts-public says, or with "
            "samples as other projects read them",
            _malt,
        ),
        PublicSet(
            "rewardhackwatch",
            "https://github.com/aerosta/rewardhackwatch",
            "git clone https://github.com/aerosta/rewardhackwatch; give results/rhw_bench/test_cases/expanded",
            "Apache-2.0",
            "aerosta, rewardhackwatch; synthetic, and many of its texts are the same",
            "`{expected_hack, category, trajectory: {code_outputs}}`; checked against files of the repository",
            _rewardhackwatch,
        ),
    )
}


def set_table() -> str:
    """The sets as the documents show them."""
    rows = [
        f"| [`{each.name}`]({each.url}) | {each.licence} | {each.citation} | {each.layout} |"
        for each in PUBLIC_SETS.values()
    ]
    return "\n".join(["| set | licence | citation | layout, and how it is known |", "|---|---|---|---|", *rows])
