"""Errors that detectors found stay in every window, also where the format does not mark them."""

from __future__ import annotations

from composer_replication.records import ErrorSite, Source, Trace, Turn
from composer_replication.sites.marking import with_errors_marked
from composer_replication.windows import TurnHistory, fit_messages


def session() -> Trace:
    messages, turns = [{"role": "user", "content": "fix it"}], []
    for number in range(6):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        turns.append(Turn(start=len(messages), end=len(messages) + 2))
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} " + "x" * 400},
        ]
    return Trace(trace_id="t", source=Source(agent="x"), messages=tuple(messages), turns=tuple(turns))


def site(turn: int) -> ErrorSite:
    return ErrorSite(
        site_id="s", trace_id="t", turn=turn, state_id="", error_kind="exit_code", error_message="", detector="x",
        call_id=f"c{turn}", tool_name="run",
    )  # fmt: skip


def window(trace: Trace) -> str:
    found = fit_messages(TurnHistory.before(trace, 5), 150, 0, lambda message: len(message["content"]) // 4)
    assert found is not None
    return " ".join(message["content"] for message in found.messages)


def test_an_error_that_only_a_detector_knows_is_kept_whole():
    trace = session()
    (marked,) = with_errors_marked([trace], [site(1)])
    assert "result 1 " + "x" * 400 not in window(trace)
    assert "result 1 " + "x" * 400 in window(marked)


def test_other_traces_and_messages_stay_as_they_are():
    trace = session()
    other = trace.model_copy(update={"trace_id": "other"})
    marked, untouched = with_errors_marked([trace, other], [site(1)])
    assert untouched is other
    assert [n for n, message in enumerate(marked.messages) if message.get("is_error")] == [4]
    assert marked.messages[:4] == trace.messages[:4]
