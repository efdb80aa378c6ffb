"""`RUN/samples`: fresh turns of a policy at the states that may be asked about.

Drawn once, and part of the run from then on. Optional: only `replay --policy` and what comes after it need them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from composer_replication.errors import UsageError, quoted
from composer_replication.progress import Progress
from composer_replication.records import Message
from composer_replication.replay.gate import StateSamples, states_to_sample
from composer_replication.runs import Run
from composer_replication.sites.marking import StoredTraces

from .ingestion import rollout_tokens
from .policy import load_model, policy_room, policy_weights


def sample(run: Run, progress: Progress, policy_name: str = "policy") -> None:
    from composer_replication.training.rollouts.state_samples import sample_states
    from composer_replication.training.stored.contexts import Contexts

    started, stage, inputs = time.monotonic(), run.stage("samples"), [run.stage("ingestion"), run.stage("sites")]
    name, weights = policy_weights(run, policy_name)
    if stage.is_done:
        if stage.require()["inputs"]["policy"] != weights:
            again = (
                f"delete {quoted(stage.path)}, {quoted(run.path / 'replay')} and what comes after, "
                "then run the same command"
            )
            raise UsageError(f"the samples of {run.path} are of another policy ({stage.counts['policy']})", again)
        return
    gate, training, traces = run.config.replay.gate, run.config.training, StoredTraces(*inputs)
    states = states_to_sample(traces, traces.sites(), gate.max_sampled, run.config.seed)
    policy = load_model(run, name)
    contexts = Contexts(policy, rollout_tokens(run), policy_room(run, policy))
    before = [
        (state, contexts.before(state.state_id, state.trace.history(state.turn), state.trace.tools)) for state in states
    ]
    found = [(state, ids) for state, ids in before if ids]
    turns = sample_states(
        policy,
        [ids for _, ids in found],
        samples=gate.samples,
        max_new_tokens=training.max_turn_tokens,
        temperature=training.temperature,
        seed=run.config.seed,
        tools=[state.trace.tools for state, _ in found],
        on_batch=lambda done: progress.step(done, len(found), f"{gate.samples} turns each"),
    )
    records = [
        StateSamples(state_id=state.state_id, trace_id=state.trace.trace_id, turn=state.turn, messages=tuple(messages))
        for (state, _), messages in zip(found, turns, strict=True)
    ]
    counts = {
        "policy": policy_name,
        "states": len(records),
        "too_long": len(states) - len(records),
        "samples": sum(map(len, turns)),
        "cut_off": len(records) * gate.samples - sum(map(len, turns)),
    }
    stage.finish(records, counts, inputs, started, {"policy": weights})


def stored_samples(run: Run) -> dict[str, Sequence[Message]]:
    """Samples of the policy by state id, where some were drawn."""
    stage = run.stage("samples")
    return {row.state_id: row.messages for row in stage.stream(StateSamples)} if stage.is_done else {}
