"""`recompose show RUN [ID]`"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from composer_replication.runs import Run

from .arguments import Json, RunFolder


def show(
    run: RunFolder,
    record_id: Annotated[
        str | None,
        Parameter(name="ID", help="A trace, turn (TRACE:N), site, hint, reply, pair, rollout, finding or task."),
    ] = None,
    /,
    *,
    raw: Annotated[
        bool, Parameter(negative="", help="The record as it is stored; of a turn, the bytes that it was read from.")
    ] = False,
    json: Json = False,
) -> None:
    """Show one record of RUN, what it came from and what was made of it; without ID, the funnel.

    An id may be shortened to its first characters. Characters that could steer a terminal are shown as glyphs.
    """
    from composer_replication.viewer import terminal
    from composer_replication.viewer.api import ANSWERS
    from composer_replication.viewer.lookup import RunView

    view = RunView(Run.open(run))
    view.fresh()
    if record_id is None:
        if json or raw:
            print(terminal.as_json(ANSWERS["run"](view, {})))
        else:
            terminal.say(terminal.funnel(view))
    elif raw:
        print(terminal.raw(view, record_id))
    elif json:
        print(terminal.as_json(terminal.whole(view, record_id)))
    else:
        terminal.say(terminal.record(view, record_id))
