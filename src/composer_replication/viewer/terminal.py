"""What `recompose show` prints: one record with what it came from and what was made of it, or the funnel.

Every line is made visible where it is printed, so nothing in a trace can steer the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from composer_replication.errors import quoted
from composer_replication.ingestion.inputs import is_whole_file
from composer_replication.records import JsonObject, canonical_json, render_action

from .answers.parts import shown_turn
from .answers.run import people
from .answers.run import run as run_answer
from .answers.sites import pair as pair_answer
from .answers.sites import site as site_answer
from .answers.traces import source as source_answer
from .api import ANSWERS
from .lookup import RunView
from .visible import one_line, visible

WIDTH, LONG, TURNS, LINKS, DROPS = 110, 1500, 12, 12, 6
SHAM = "sham: reminders of other errors in the same form, the control that `sham = true` trains on in its place"


def say(lines: Iterator[str]) -> None:
    print("\n".join(visible(line) for line in lines))


def as_json(value: JsonObject) -> str:
    """Exact, and inert on a terminal: whatever is not plain ASCII is escaped."""
    return json.dumps(value, indent=1).replace("\x7f", "\\u007f")


def funnel(view: RunView) -> Iterator[str]:
    """The whole run, with the commands that go deeper."""
    answer = run_answer(view, {})
    yield f"{view.run.path}: {answer['trained_on']}, {answer['model']}, seed {answer['seed']}"
    kept = 0 if view.run.stage("training").is_done else max(view.run.checkpoints(), default=0)
    for row in answer["funnel"]:
        first, *more = _dropped(row)
        yield f"  {row['label']:<8} {'–' if row['count'] is None else row['count']:>8}   {first}".rstrip()
        yield from (f"{'':22}{line}" for line in more)
    if kept:
        yield f"  training has not ended; {kept} of {view.run.config.training.steps} steps are kept"
    if spend := answer["spend"]:
        words = "simulated teachers" if spend["simulated"] else f"${spend['spent_micros'] / 1e6:,.4f}"
        yield f"  spent    {words:>8}"
    if result := answer["result"]:
        yield f"  success  {_estimate(result['success_before'])} before, {_estimate(result['success_after'])} after"
    for name, found in people(view).items():
        if found:
            yield f"  people   kappa {_estimate(found)} with the teachers' vote, {found['n']} sites, {name} votes"
    yield ""
    yield from _examples(view)
    if answer["now"]:
        yield f"now: {answer['now']}"
    if answer["next"]:
        yield f"next: {answer['next']}" + f"  # goes on after step {kept}" * bool(kept)
    yield f"in a browser: recompose view {quoted(view.run.path)}"


def _dropped(row: JsonObject) -> list[str]:
    """The largest reasons; of what was read, those of sessions and of lines apart."""
    parts: dict[str, list[JsonObject]] = {}
    for drop in row["drops"]:
        whole = "sessions left out: " if is_whole_file(drop["reason"]) else "lines left out: "
        parts.setdefault(whole if row["noun"] == "ingestion" else "", []).append(drop)
    told = [
        name + ", ".join(f"{drop['reason']} {drop['count']}" for drop in found[:DROPS]) for name, found in parts.items()
    ]
    return told or [""]


def record(view: RunView, record_id: str) -> Iterator[str]:
    """One record, found by its id."""
    answer = ANSWERS["show"](view, {"id": record_id})
    kind, found = answer["kind"], answer["id"]
    yield f"{kind} {found}"
    yield from (f"  {line}" for line in _SHOWN[kind](view, found))
    for name, links in (("from", answer["from"]), ("made", answer["to"])):
        if links:
            yield ""
            yield from _links(view, name, links)
    yield ""
    yield f"more: recompose show {quoted(view.run.path)} {quoted(found)} --raw"


def whole(view: RunView, record_id: str) -> JsonObject:
    """The record and its provenance, for programs."""
    answer = ANSWERS["show"](view, {"id": record_id})
    kind, found = answer["kind"], answer["id"]
    if kind == "turn":
        trace_id, _, number = found.rpartition(":")
        return {**answer, "record": shown_turn(view, trace_id, int(number), limit=None)}
    return {**answer, "record": ANSWERS["task"](view, {"id": found}) if kind == "task" else view.get(kind, found).body}


def raw(view: RunView, record_id: str) -> str:
    """The record as it is stored; of a turn, the bytes that it was read from."""
    kind, found = view.resolve(record_id)
    if kind == "turn":
        trace_id, _, turn = found.rpartition(":")
        answer = source_answer(view, {"trace": trace_id, "turn": turn})
        if answer["found"]:
            return visible(answer["text"])
        return as_json({"why": answer["why"], "messages": _turn_messages(view, trace_id, int(turn))})
    if kind == "task":
        return as_json(ANSWERS["task"](view, {"id": found}))
    body = view.get(kind, found).body
    if kind == "trace":
        turns = view.get(kind, found).facts["turns"]
        body = {**body, "turns": view.cache.part(found, "t", 0, turns)}
    return as_json(body)


def _trace(view: RunView, record_id: str) -> Iterator[str]:
    found = view.get("trace", record_id)
    facts, source = found.facts, found.body["source"]
    outcome = "" if facts["outcome"] is None else f", outcome {facts['outcome']:g}"
    yield f"{source['agent']} {source['version'] or ''}: {facts['turns']} turns, {facts['messages']} messages{outcome}"
    if facts["task_id"]:
        yield f"task {facts['task_id']}"
    yield one_line(facts["title"], WIDTH)
    yield ""
    marks: dict[int, list[str]] = {}
    for each in view.all("trace_id = ? AND kind IN ('site', 'pair') ORDER BY turn", record_id):
        marks.setdefault(int(each.turn or 0), []).append(each.facts["error_kind"] if each.kind == "site" else "pair")
    wanted = sorted({*range(min(TURNS, facts["turns"])), *list(marks)[:TURNS]})
    for number in wanted:
        (message, *_) = _turn_messages(view, record_id, number)
        marked = f"✗ {', '.join(map(str, marks[number]))}: " if number in marks else ""
        yield f"{number:>6}  {one_line(marked + render_action(message), WIDTH)}"
    if left := facts["turns"] - len(wanted):
        yield f"        {left} more turns; one of them: recompose show {quoted(view.run.path)} {record_id}:{wanted[-1]}"


def _turn(view: RunView, record_id: str) -> Iterator[str]:
    trace_id, _, number = record_id.rpartition(":")
    for message in _turn_messages(view, trace_id, int(number)):
        failed = " (error)" if message.get("is_error") else ""
        yield f"{message['role']}{failed}"
        yield from _text(render_action(message))


def _site(view: RunView, record_id: str) -> Iterator[str]:
    answer = site_answer(view, {"id": record_id})
    site, hint = answer["site"], answer["hint"]
    yield f"{site['error_kind']}, fault of the {site['fault']}, by {site['detector']} ({site['confidence']:g})"
    yield from _text(site["error_message"])
    yield f"turn {site['turn']} of {answer['trace']['n_turns']}:"
    yield from _text(render_action(_turn_messages(view, site["trace_id"], site["turn"])[0]))
    if hint:
        yield f"hint ({hint['layer']}, {hint['leak_level']}, {hint['tokens']} tokens)"
        yield from _text(hint["text"])
        yield SHAM
        yield from _text(hint["sham_text"])
    yield from _replies(answer["replies"])
    agreement = answer["agreement"]
    if answer["replies"] and not answer["pair"]:
        yield f"no pair: at most {agreement['largest']} of {agreement['families']} families gave the same call, "
        yield f"  {agreement['needed']} are needed"


def _hint(view: RunView, record_id: str) -> Iterator[str]:
    hint = view.get("hint", record_id).body
    yield f"layer {hint['layer']}, leak level {hint['leak_level']}, {hint['tokens']} tokens"
    yield from _text(hint["text"])
    yield SHAM
    yield from _text(hint["sham_text"])


def _reply(view: RunView, record_id: str) -> Iterator[str]:
    reply = view.get("reply", record_id).body
    served = "" if reply["served_model"] == reply["teacher"] else f", served by {reply['served_model']}"
    yield f"{reply['teacher']}{served}{' (simulated)' if reply['simulated'] else ''}"
    yield f"{reply['outcome']}, {reply['finish_reason']}, ${reply['cost_micros'] / 1e6:.6f}, {reply['latency_s']:.2f} s"
    yield from _text(reply["action"] or reply["raw"])


def _pair(view: RunView, record_id: str) -> Iterator[str]:
    answer = pair_answer(view, {"id": record_id})
    why, pair = answer["why"], view.get("pair", record_id).body
    yield why["kept_because"]
    if why["who_voted"]:
        yield f"votes: {why['who_voted']}"
    yield from (f"doubt, {doubt['name']}: {doubt['says']}" for doubt in why["doubts"])
    for name in ("chosen", "rejected"):
        yield f"{name}, from {why[f'{name}_from']}"
        yield from _text(render_action(pair[name]))
    for row in answer["diff"]["arguments"]:
        if not row["same"]:
            chosen, rejected = (one_line(row[side] or "absent", LONG) for side in ("chosen", "rejected"))
            yield f"  {row['path']}: {chosen} over {rejected}"
    yield from _replies(answer["replies"])


def _rollout(view: RunView, record_id: str) -> Iterator[str]:
    body = view.get("rollout", record_id).body
    yield f"step {body['step']}, reward {body['reward']:g}, {body['sampled_tokens']} sampled tokens, {body['task_id']}"
    for message in body["prompt"]:
        yield message["role"]
        yield from _text(message["content"])
    for number, turn in enumerate(body["turns"]):
        yield f"turn {number} {', '.join(turn['error_kinds'])}".rstrip()
        yield from _text(turn["action"])
        if turn["hint"]:
            yield f"    hint: {one_line(turn['hint'], WIDTH)}"
        for observation in turn["observations"]:
            yield from _text(observation)


def _finding(view: RunView, record_id: str) -> Iterator[str]:
    finding = view.get("finding", record_id).body
    where = "whole attempt" if finding["step"] < 0 else f"step {finding['step']}"
    yield f"{finding['hack_class']}, {finding['evidence']} evidence, {finding['layer']}/{finding['rule']}, {where}"
    for line in finding["lines"]:
        yield from _text(line)


def _task(view: RunView, record_id: str) -> Iterator[str]:
    answer = ANSWERS["task"](view, {"id": record_id})
    yield from _text(answer["statement"] or "")
    for outcome in answer["outcomes"]:
        when = f"{outcome['phase']} training ({outcome['split']})"
        yield f"{when}: reward {outcome['reward']:g} in {outcome['turns']} turns"
    for name in ("traces", "rollouts", "findings"):
        yield f"{len(answer[name])} {name}"


_SHOWN: dict[str, Callable[[RunView, str], Iterator[str]]] = {
    "trace": _trace,
    "turn": _turn,
    "site": _site,
    "hint": _hint,
    "reply": _reply,
    "pair": _pair,
    "rollout": _rollout,
    "finding": _finding,
    "task": _task,
}


def _replies(replies: Sequence[JsonObject]) -> Iterator[str]:
    for reply in replies:
        mark = "✓" if reply["voted_for_chosen"] else " "
        said = canonical_json(reply["action"]) if reply["action"] else f"{reply['outcome']}: {reply['text']}"
        cents = f"{reply['cost_micros'] / 1e4:.4f} ¢"
        yield f"{mark} {reply['teacher']:<32} {cents:>10} {reply['latency_s']:>6.2f} s  {one_line(said, WIDTH)}"


def _links(view: RunView, name: str, links: Sequence[JsonObject]) -> Iterator[str]:
    for link in links[:LINKS]:
        if link["kind"] in ("bytes", "file"):
            span = link.get("byte_range")
            place = f"bytes {span[0]}–{span[1]} of {link['file']}" if span else link["file"] or "played, not read"
            yield f"  {name}  {place}"
        else:
            yield f"  {name}  {link['kind']:<8} {link['id']}  {one_line(link['label'], 60)}".rstrip()
    if len(links) > LINKS:
        yield f"  {name}  {len(links) - LINKS} more: --json"


def _examples(view: RunView) -> Iterator[str]:
    command = f"recompose show {quoted(view.run.path)}"
    view.fresh()
    for kind in ("trace", "site", "hint", "pair", "rollout", "finding"):
        if example := view.first("kind = ? ORDER BY number", kind):
            yield f"a {kind + ':':<9} {command} {example.id}"


def _turn_messages(view: RunView, trace_id: str, number: int) -> list[Any]:
    (turn,) = view.cache.part(trace_id, "t", number, number + 1)
    return view.cache.part(trace_id, "m", turn["start"], turn["end"])


def _text(text: str) -> Iterator[str]:
    shown = text if len(text) <= LONG else f"{text[:LONG]}\n… {len(text) - LONG} more characters"
    return (f"    {line}" for line in shown.split("\n"))


def _estimate(value: JsonObject) -> str:
    interval = value["why"] or f"{value['lo']:.3f}, {value['hi']:.3f}"
    return f"{value['mean']:.3f} [{interval}]"
