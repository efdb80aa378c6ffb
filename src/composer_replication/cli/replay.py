"""`recompose replay RUN`"""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

from cyclopts import Parameter

from composer_replication.errors import RecomposeError, UsageError, quoted
from composer_replication.llm.bill import summary
from composer_replication.llm.ledger import Ledger
from composer_replication.pipeline import ensure_policy, refuse_stale
from composer_replication.progress import Progress
from composer_replication.replay.choice import FORM, configured_teachers, written_teachers
from composer_replication.replay.estimate import CostEstimate, estimate
from composer_replication.replay.runner import endpoint_of
from composer_replication.replay.teachers import Teacher
from composer_replication.runs import Run
from composer_replication.stages.policy import means_own
from composer_replication.stages.prospects import SEEN_ELSEWHERE, Prospect, prospect
from composer_replication.stages.replay import (
    hopeful,
    refuse_other_options,
    refuse_teachers_who_know_nothing,
    replay_config,
    replay_plan,
    replay_teachers,
)
from composer_replication.stages.replay import replay as replay_stage
from composer_replication.stages.samples import sample as sample_policy

from .common import Json, RunFolder, micros_of_cap, quiet_libraries, tell
from .progress import open_progress


def replay(
    run: RunFolder,
    /,
    *,
    teacher: Annotated[
        tuple[str, ...], Parameter(help=f"{FORM.partition(' ')[2]}; may be given often.", negative="")
    ] = (),
    policy: Annotated[
        str | None,
        Parameter(help="Sample this model first: `policy` (the run's own), a folder or a hub id.", name="--policy"),
    ] = None,
    own_family: Annotated[
        bool, Parameter(negative="", help="Also ask teachers of the family that made a turn, and let them vote.")
    ] = False,
    one_teacher: Annotated[
        bool,
        Parameter(negative="", help="One family's word is enough where a sample of the policy differs (--policy)."),
    ] = False,
    alias: Annotated[
        tuple[str, ...],
        Parameter(help="NAME=SERVED: answers of teacher NAME may carry this name of a model.", negative=""),
    ] = (),
    no_teachers: Annotated[
        bool, Parameter(negative="", help="Ask nobody: there will be no pairs, and training goes without channel 3.")
    ] = False,
    batch: Annotated[
        bool, Parameter(negative="", help="Ask through the batch endpoints of OpenAI and Anthropic: half the price.")
    ] = False,
    max_usd: Annotated[float | None, Parameter(help="Most that the whole run may spend on models.")] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Show calls, tokens and dollars; ask nobody.")] = False,
    json: Json = False,
) -> None:
    """Ask the teachers what they would have done at the error sites of RUN.

    With --policy, also where samples of that model differ most; they are kept in RUN/samples, for the pairs too.
    Teachers are simulated unless some are named here or in the run's config. A call that was answered is never paid
    again, so the command may be stopped and started at will; several processes may work on one run.
    """
    quiet_libraries()
    opened = Run.open(run)
    chosen = written_teachers(teacher, opened.config.replay, alias)
    cap_micros = micros_of_cap(max_usd)
    if no_teachers and (chosen or dry_run or batch or max_usd is not None):
        raise UsageError("--no-teachers asks nobody", f"recompose replay {quoted(run)} --no-teachers")
    for noun in ("ingestion", "sites"):
        opened.stage(noun).require()
    is_done = refuse_stale(opened, "replay") and not dry_run
    if is_done:
        refuse_other_options(opened, chosen, own_family, policy, one_teacher)
    elif not chosen and not no_teachers:
        refuse_teachers_who_know_nothing(opened)
    with closing(open_progress()) as progress:
        if policy:
            _sample(opened, policy, progress)
        if is_done:
            tell("replay", opened, json)
            return
        if dry_run:
            _show_estimate(*estimate_replay(opened, chosen, own_family, one_teacher, batch), json)
            return
        _spend(opened, chosen, own_family, one_teacher, cap_micros, progress, json, no_teachers, batch)
    tell("replay", opened, json)


def _sample(run: Run, policy: str, progress: Progress) -> None:
    with run.lock():
        if means_own(run, policy):
            ensure_policy(run, progress)
            refuse_stale(run, "samples")
        progress.stage("samples", "sample the policy")
        sample_policy(run, progress, policy)


def _spend(
    opened: Run,
    chosen: Sequence[Teacher],
    own_family: bool,
    one_teacher: bool,
    cap_micros: int | None,
    progress: Progress,
    as_json: bool,
    ask_nobody: bool,
    batch: bool,
) -> None:
    if cap_micros is not None:
        _require_keys(opened, chosen, own_family, one_teacher)
        with closing(Ledger(opened.path / "ledger.sqlite")) as ledger:
            ledger.set_cap(cap_micros)
    # No lock on the run: processes that share it write the same bytes, and the ledger keeps their calls apart.
    progress.stage("replay", "ask the teachers")
    try:
        replay_stage(opened, progress, chosen, own_family, ask_nobody, batch, one_teacher)
    except (RecomposeError, KeyboardInterrupt) as error:
        answers = _tell_what_is_saved(opened, chosen, as_json)
        if isinstance(error, KeyboardInterrupt):
            error.args = (f"{answers} answers are kept",)
        raise


def _require_keys(run: Run, chosen: Sequence[Teacher], own_family: bool, one_teacher: bool) -> None:
    """A cap is set for teachers who can be asked. Where all is answered already nobody is, and no key is needed."""
    config = run.config.replay
    try:
        for teacher in chosen or ([] if config.simulated else configured_teachers(config)):
            endpoint_of(teacher)
    except UsageError:
        if any(one.calls for one in estimate_replay(run, chosen, own_family, one_teacher)[0]):
            raise


def _tell_what_is_saved(run: Run, chosen: Sequence[Teacher], as_json: bool) -> int:
    """A run that stopped early has no manifest yet; its ledger knows what there is. Returns the number of answers."""
    path = run.path / "ledger.sqlite"
    if not path.exists():
        return 0
    with closing(Ledger(path)) as ledger:
        asked = {name for (name,) in ledger.rows("SELECT DISTINCT teacher FROM attempts")}
        counts = summary(ledger, {one.name for one in chosen} or asked)
    replies = counts["settled"] + counts["inherited"]
    if as_json:
        saved = {"run": str(run.path), "stage": "replay", "replies": replies, "finished": False}
        print(json_module.dumps({**saved, **counts}))
    return replies


def estimate_replay(
    run: Run, chosen: Sequence[Teacher], own_family: bool, one_teacher: bool, batch: bool = False
) -> tuple[list[CostEstimate], Prospect | None]:
    config = replay_config(run, own_family, one_teacher)
    states = [choice.state for choice in replay_plan(run, chosen)]
    with replay_teachers(run, chosen, batch) as teachers:
        asking, _ = hopeful(run, states, teachers, config)
        found = estimate(asking, teachers, config.max_tokens, run.path / "ledger.sqlite")
        return found, prospect(run, asking, teachers, config, found)


def _show_estimate(estimates: Sequence[CostEstimate], expected: Prospect | None, as_json: bool) -> None:
    fields = (
        "calls", "cached", "prompt_tokens", "completion_tokens", "expected_micros", "worst_micros", "own_family",
        "too_long", "windowed",
    )  # fmt: skip
    total: dict[str, Any] = {name: sum(getattr(one, name) for one in estimates) for name in fields}
    if as_json:
        told = expected._asdict() if expected else None
        print(json_module.dumps({**total, "teachers": [one._asdict() for one in estimates], "prospect": told}))
        return
    print(f"{'teacher':<34}{'calls':>8}{'cached':>8}{'tokens in':>12}{'out':>10}{'expected':>12}{'at most':>12}")
    for one in estimates:
        _line(one.teacher, one._asdict(), "" if one.prices_known else "  price unknown, counted as free")
    _line("all", total)
    for one in estimates:
        if one.own_family or one.too_long:
            print(
                f"{one.teacher} is not asked at {one.own_family} states of its own family "
                f"and at {one.too_long} beyond its context"
            )
        if one.windowed:
            print(f"{one.teacher} is shown a window of the history at {one.windowed} states, to fit its context")
    if expected:
        _show_prospect(expected)
    if any(not one.prices_known for one in estimates):
        print("a loopback server without a price is believed what its answers say; --max-usd still holds")


def _show_prospect(expected: Prospect) -> None:
    digits = 0 if expected.pairs["mean"] >= 10 else 1
    mean, lo, hi = (f"{expected.pairs[name]:.{digits}f}" for name in ("mean", "lo", "hi"))
    pairs = f"{mean} pairs ({lo} to {hi})"
    dollars = {name: micros and f"${micros / 1e6:,.2f}" for name, micros in expected.micros_per_pair.items()}
    each = ", at {mean} each ({lo} to {hi})".format(**{name: shown or "any price" for name, shown in dollars.items()})
    print(f"expected: {pairs} of {expected.states:,} states{each if dollars['lo'] else ''}")
    rate = f"{expected.found} pairs at {expected.looked_at} states that are answered"
    if expected.source == "default":
        rate = "{} pairs of {} states, seen elsewhere with simulated teachers".format(*SEEN_ELSEWHERE)
    print(f"  by the rate of {'this run' if expected.source == 'this run' else 'another'}: {rate}")


def _line(name: str, row: dict[str, Any], note: str = "") -> None:
    tokens = f"{row['prompt_tokens']:>12,}{row['completion_tokens']:>10,}"
    dollars = "".join(f"{f'${row[key] / 1e6:,.4f}':>12}" for key in ("expected_micros", "worst_micros"))
    print(f"{name:<34}{row['calls']:>8,}{row['cached']:>8,}{tokens}{dollars}{note}")
