"""One error turn of the A/B's world with the hint and the sham that stand for it, for the page."""

from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, trace_of
from composer_replication.training.lessons.online_sites import TraceHinter
from shared.runner.plan import Plan

TASK = 20_004


def example(plan: Plan) -> dict[str, str]:
    """A task of one call, played with its integer in quotes, as the noisy logs do."""
    task = make_task(plan.start_config("main", 0).toolbox, "heldout", TASK)
    (step,) = task.plan
    listing = next(one for one in task.listings if one.tool == step.tool)
    wrong = Call(listing.name, {name: str(value) for name, value in step.arguments.items()}).render()
    episode = ToolboxEpisode(task)
    answer = episode.step(wrong).observation
    trace = trace_of(episode, "policy", 0)
    hint, sham = (TraceHinter(sham=sham)([trace])[0][0].hint for sham in (False, True))
    return {
        "request": task.request,
        "tool": listing.render(),
        "turn": wrong,
        "answer": answer,
        "hint": hint,
        "sham": sham,
    }
