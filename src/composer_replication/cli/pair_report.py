"""What `recompose pair` tells: the funnel, what the gate brought, how teachers agree, and whether there is signal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from composer_replication.environments.opening import open_environment
from composer_replication.pairs.calibrate import is_right
from composer_replication.pairs.card import style_gap
from composer_replication.pairs.degenerate import degenerate_pairs
from composer_replication.pairs.signal import THRESHOLD, SignalReport, distance_from_random, signal_report
from composer_replication.pipeline import ensure_policy
from composer_replication.progress import Progress
from composer_replication.records import Message, PreferencePair, TeacherReply, Trace
from composer_replication.replay.gate import yields
from composer_replication.runs import Run
from composer_replication.stages.ingestion import rollout_tokens
from composer_replication.stages.pairs import asked_traces, oracle, remember
from composer_replication.stages.policy import load_model, means_own, policy_room, policy_weights
from composer_replication.stages.replay import asked_states

SIGNAL_FIELDS = {"margin", "distance", "meets_threshold"}


def pair_report(run: Run, reference: str | None, progress: Progress) -> dict[str, Any]:
    """One JSON object about the pairs of a run; `signal` is None without a reference model."""
    replies, pairs = run.stage("replay").read(TeacherReply), run.stage("pairs").read(PreferencePair)
    traces = asked_traces(run, [*replies, *pairs])
    counts, replayed = run.stage("pairs").counts, run.stage("replay").counts
    own_family = replayed.get("own_family", False)
    report = signal_report(traces, replies, pairs, counts["verdicts"], own_family=own_family)
    told = report.model_dump(exclude=SIGNAL_FIELDS)
    told["funnel"]["states"] = replayed["states"]
    known = {trace.trace_id: trace for trace in traces}
    with open_environment(run.config) as environment:
        remember(environment, traces)
        knows = oracle(environment)
        gate = yields(asked_states(run), pairs, lambda pair: is_right(pair, known, knows))
    return {
        "run": str(run.path),
        "stage": "pairs",
        **told,
        "verdicts": counts["verdicts"],
        "sides": {
            "chosen": dict(Counter(pair.chosen_from for pair in pairs)),
            "rejected": dict(Counter(pair.rejected_from for pair in pairs)),
            "off_policy": sum(pair.off_policy for pair in pairs),
        },
        "style": style_gap(pairs),
        "degenerate": [one.model_dump() for one in degenerate_pairs(pairs, replies)],
        "gate": {bucket: found._asdict() for bucket, found in gate.items()},
        "signal": _signal(run, report, pairs, known, reference, progress) if reference else None,
    }


def _signal(
    run: Run,
    report: SignalReport,
    pairs: Sequence[PreferencePair],
    traces: Mapping[str, Trace],
    reference: str,
    progress: Progress,
) -> dict[str, Any]:
    from composer_replication.training.models.states import turn_logprob
    from composer_replication.training.stored.contexts import Contexts

    progress.stage("signal", "compare with re-matched pairs")
    if means_own(run, reference):
        ensure_policy(run, progress)
    where, _ = policy_weights(run, reference)
    policy = load_model(run, where)
    contexts = Contexts(policy, rollout_tokens(run), policy_room(run, policy))
    before = {
        pair.pair_id: contexts.before(pair.state_id, traces[pair.trace_id].history(pair.turn), pair.tools)
        for pair in pairs
    }
    measured = [pair for pair in pairs if before[pair.pair_id]]
    done = 0

    def logprob(pair: PreferencePair, message: Message) -> float:
        nonlocal done
        done += 1
        progress.step(done, 3 * len(measured))
        return turn_logprob(policy, before[pair.pair_id] or [], contexts.turn(message))

    margin, distance = distance_from_random(measured, logprob, run.config.seed) if measured else (None, None)
    report = report.model_copy(update={"margin": margin, "distance": distance})
    return {
        "reference": reference,
        **report.model_dump(include=SIGNAL_FIELDS),
        "left_out": len(pairs) - len(measured),
        "threshold": THRESHOLD,
    }


def show_report(report: Mapping[str, Any]) -> None:
    print(f"pairs of {report['run']}{' (simulated teachers)' if report['simulated'] else ''}")
    print("  " + " → ".join(f"{number} {name}" for name, number in report["funnel"].items()))
    for name in ("replies", "states"):
        dropped = report[f"dropped_{name}"]
        if dropped:
            print(f"  {name} dropped: {_listed(dropped)}")
    for bucket, found in report["gate"].items():
        judged = f", {found['correct']} of {found['judged']} judged right" if found["judged"] else ""
        print(f"  {f'gate, {bucket}':<15} {found['states']} states, {found['pairs']} pairs{judged}")
    chosen, rejected = (_listed(report["sides"][side]) for side in ("chosen", "rejected"))
    if chosen:
        off_policy = report["sides"]["off_policy"]
        print(f"  sides           chosen from {chosen}; rejected from {rejected}; {off_policy} off-policy")
    kappas = (_number(report["kappa"]), _number(report["kappa_tool"]))
    print("  agreement       Fleiss' kappa {} on calls, {} on tools".format(*kappas))
    for name, teacher in report["teachers"].items():
        rate = "–" if teacher["win_rate"] is None else f"{teacher['win_rate']:.1%}"
        print(f"  {name}: {teacher['valid']} of {teacher['answers']} replies vote, on the agreed side {rate}")
    if report["style"]:
        print(f"  style           {'; '.join(_gaps(report['style'])) or 'both sides alike'}")
    if report["length"]:
        length = report["length"]
        print(
            f"  length          {length['chosen']:.0f} characters chosen, {length['rejected']:.0f} rejected; "
            f"chosen is longer in {length['chosen_longer']:.0%}"
        )
    print(f"  pairs per trace {report['pairs_per_trace']:.2f} over {report['traces']} traces that were asked about")
    for one in report["degenerate"]:
        print(f"  DEGENERATE      {one['sentence']}; `recompose train` stops without --anyway")
    if report["signal"]:
        _show_signal(report["signal"])
    if "export" in report:
        _show_export(report["export"])


def _show_export(done: Mapping[str, Any]) -> None:
    print(f"  export          {done['folder']}")
    lost = f"lost {sum(done['lost'].values())}"
    if done["lost"]:
        lost += f" ({'; '.join(f'{reason} {number}' for reason, number in done['lost'].items())})"
    print(f"    kept {done['kept']} of {done['pairs']} pairs as {done['rows']} rows, {lost}")
    print(f"    {done['windowed']} prompts windowed, {done['malformed_histories']} with a malformed call shown as text")
    tokens, longer = done["tokens"], done["over_trl_default"]
    print(f"    tokens: median {tokens['median']}, longest {tokens['longest']}, by {done['counted_by']}")
    if longer:
        print(f"    {longer} are longer than 1,024 tokens: raise TRL's max_length, or give --max-tokens 1024")
    if done["calls_are_unseen"]:
        print("    this chat template writes no calls: give --calls-as-text")


def _show_signal(signal: Mapping[str, Any]) -> None:
    for name, what in (("margin", "chosen over rejected"), ("distance", "from re-matched pairs")):
        found = signal[name]
        value = f"{found['mean']:+.2f} [{found['lo']:+.2f}, {found['hi']:+.2f}], n {found['n']}" if found else "–"
        print(f"  {name:<15} {value}: {what}, nats under {signal['reference']}")
    if signal["left_out"]:
        print(f"  left out        {signal['left_out']} pairs that are too long for it")
    least, verdict = signal["threshold"], "met" if signal["meets_threshold"] else "not met"
    asked = f"{least['pairs_per_trace']:.0f} pairs per trace and a distance above 0, over {least['traces']} traces"
    print(f"  threshold       {verdict}: at least {asked}")


def _gaps(style: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} in {sides['chosen']:.0%} of chosen, {sides['rejected']:.0%} of rejected sides"
        for name, sides in style.items()
        if sides["chosen"] != sides["rejected"]
    ]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
