"""OpenHands before and after 1.0: merging, condensations, delegates, failures, older forms and damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from composer_replication.ingestion.readers import openhands_v0, openhands_v1
from composer_replication.ingestion.reading import InputFile, ReadingReport

from .reading_trials import Trial, trial

Row = dict[str, Any]


def lines(rows: list[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def calls(*ids: str) -> list[Row]:
    function = {"name": "execute_bash", "arguments": '{"command":"ls"}'}
    return [{"id": call_id, "type": "function", "function": function} for call_id in ids]


def metadata(response: str, call_id: str, *ids: str, text: str = "I look.") -> Row:
    message = {"role": "assistant", "content": text, "tool_calls": calls(*ids)}
    answer = {"id": response, "model": "claude-sonnet-4", "choices": [{"message": message}]}
    return {"function_name": "execute_bash", "tool_call_id": call_id, "model_response": answer}


def action(event_id: int, kind: str, source: str = "agent", call: Row | None = None, **args: object) -> Row:
    event = {"id": event_id, "timestamp": "t", "source": source, "action": kind, "args": args}
    return event | ({"tool_call_metadata": call} if call else {})


def observation(event_id: int, kind: str, content: str, call: Row | None = None, **extras: object) -> Row:
    event = {"id": event_id, "source": "environment", "observation": kind, "content": content, "extras": extras}
    return event | ({"tool_call_metadata": call} if call else {})


TASK = action(1, "message", "user", content="do it")


class TestV0:
    def test_parallel_calls_are_one_turn_with_the_texts_of_the_response(self, tmp_path: Path) -> None:
        both = ("a", "b")
        events = [
            TASK,
            action(2, "run", call=metadata("r", "a", *both), command="ls"),
            action(3, "run", call=metadata("r", "b", *both), command="ls"),
            observation(4, "run", "one", metadata("r", "a", *both), metadata={"exit_code": 2, "working_dir": "/w"}),
            observation(5, "error", "boom", metadata("r", "b", *both)),
        ]
        found = trial(openhands_v0.read, tmp_path, events)
        assert found.roles(0) == "su"
        assert [len(message.get("tool_calls", [])) for message in found.trace.messages] == [0, 0, 2, 0, 0]
        assert found.results() == [
            ("one\n[Current working directory: /w]\n[Command finished with exit code 2]", True),
            ("boom\n[Error occurred in processing last action]", True),
        ]
        assert found.trace.turns[0].source_model == "claude-sonnet-4"

    def test_a_gateway_that_repeats_response_ids_does_not_melt_turns(self, tmp_path: Path) -> None:
        events = [
            TASK,
            action(2, "run", call=metadata("r", "a", "a")),
            action(3, "run", call=metadata("r", "b", "b")),
        ]
        assert len(trial(openhands_v0.read, tmp_path, events).trace.turns) == 2

    def test_a_command_that_still_runs_has_not_failed(self, tmp_path: Path) -> None:
        running = observation(3, "run", "...", metadata("r", "a", "a"), metadata={"exit_code": -1}) | {"success": False}
        found = trial(openhands_v0.read, tmp_path, [TASK, action(2, "run", call=metadata("r", "a", "a")), running])
        assert found.results() == [("...", False)]

    def test_system_prompt_and_tools(self, tmp_path: Path) -> None:
        tool = {"type": "function", "function": {"name": "execute_bash", "parameters": {"type": "object"}}}
        system = action(0, "system", content="Be good.", tools=[tool], openhands_version="0.59")
        found = trial(openhands_v0.read, tmp_path, [system, TASK, action(2, "message", content="done")])
        assert found.trace.messages[0]["content"] == "Be good."
        assert found.trace.tools == (tool,)
        assert found.trace.source.version == "0.59"
        assert found.actions() == ["done"]

    def test_condensation_forgets_and_puts_the_summary_at_its_place(self, tmp_path: Path) -> None:
        events = [
            TASK,
            action(2, "run", call=metadata("r1", "a", "a")),
            observation(3, "run", "one", metadata("r1", "a", "a")),
            action(4, "run", call=metadata("r2", "b", "b")),
            observation(5, "run", "two", metadata("r2", "b", "b")),
            action(6, "condensation", forgotten_events_start_id=2, forgotten_events_end_id=3, summary="S",
                   summary_offset=1),
            action(7, "message", "user", content="go on"),
            action(8, "message", content="done"),
        ]  # fmt: skip
        found = trial(openhands_v0.read, tmp_path, events)
        assert found.texts(1) == ["do it", "I look.", "one"]
        assert found.texts(2) == ["do it", "S", "I look.", "two", "go on"]

    def test_a_later_summary_takes_the_place_of_an_earlier_one(self, tmp_path: Path) -> None:
        events = [
            TASK,
            action(2, "message", content="a"),
            action(3, "condensation", forgotten_event_ids=[2], summary="S1", summary_offset=1),
            action(4, "message", content="b"),
            action(5, "condensation", forgotten_event_ids=[4], summary="S2", summary_offset=1),
            action(6, "message", content="c"),
        ]
        assert trial(openhands_v0.read, tmp_path, events).texts(2) == ["do it", "S2"]

    def test_delegates_are_skipped(self, tmp_path: Path) -> None:
        events = [
            TASK,
            action(2, "delegate", call=metadata("r", "a", "a"), agent="Browser", inputs={}),
            action(3, "message", content="I am the delegate"),
            observation(4, "delegate", "", metadata("r", "a", "a"), outputs={"content": "found"}),
            action(5, "message", content="done"),
        ]
        found = trial(openhands_v0.read, tmp_path, events)
        assert (len(found.trace.turns), found.report.skipped["subagent"]) == (2, 1)
        assert found.results() == [("found", False)]

    def test_commands_of_the_user_are_context(self, tmp_path: Path) -> None:
        events = [
            TASK,
            action(2, "run", "user", command="pwd"),
            observation(3, "run", "/w", metadata={"exit_code": 0}) | {"cause": 2},
            action(4, "message", content="done"),
        ]
        texts = trial(openhands_v0.read, tmp_path, events).texts(0)
        assert texts[1] == "User executed the command:\npwd"
        assert texts[2].endswith("/w\n[Command finished with exit code 0]")

    def test_recalled_knowledge_is_context(self, tmp_path: Path) -> None:
        knowledge = observation(3, "recall", "", microagent_knowledge=[{"name": "git", "content": "Use git."}])
        found = trial(openhands_v0.read, tmp_path, [TASK, knowledge, action(4, "message", content="ok")])
        assert found.texts(0) == ["do it", "Use git."]

    def test_old_rows_without_ids_or_sources(self, tmp_path: Path) -> None:
        history = [
            {"action": "message", "content": "fix"},
            {"action": "run", "command": "ls", "thought": "See.", "is_confirmed": "confirmed"},
            {"observation": "run", "content": "out", "command_id": -1, "command": "ls", "exit_code": 1},
            {"action": "finish", "outputs": {}, "thought": "All done."},
        ]
        row = {
            "instance_id": "repo-1",
            "history": history,
            "metadata": {"llm_config": {"model": "gpt-4o"}},
            "test_result": {"report": {"resolved": True}},
        }
        found = trial(openhands_v0.read, tmp_path, lines([row]), "output.jsonl")
        assert (found.trace.task_id, found.trace.outcome) == ("repo-1", 1.0)
        assert found.actions()[0] == (
            'See.\n<tool_call>{"arguments":{"command":"ls"},"name":"execute_bash"}</tool_call>'
        )
        assert found.results()[0] == ("out\n[Command -1 finished with exit code 1]", True)
        assert found.trace.turns[0].source_model == "gpt-4o"

    def test_pairs(self, tmp_path: Path) -> None:
        pairs = [
            [TASK, {"observation": "null", "content": "", "extras": {}}],
            [{"action": "run", "source": "agent", "args": {"command": "ls"}},
             {"observation": "run", "content": "out", "extras": {"exit_code": 0}}],
        ]  # fmt: skip
        found = trial(openhands_v0.read, tmp_path, lines([{"history": pairs}]))
        assert found.results() == [("out\n[Command finished with exit code 0]", False)]
        assert found.report.skipped["observation/null"] == 1
        assert openhands_v0.recognises({"history": pairs})

    def test_one_session_per_row_and_equal_rows_are_equal(self, tmp_path: Path) -> None:
        rows = [{"history": [TASK, action(2, "message", content=text)]} for text in ("a", "b", "a")]
        ids = [trace.trace_id for trace in trial(openhands_v0.read, tmp_path, rows).traces]
        assert ids[0] == ids[2] != ids[1]

    def test_unknown_repeated_and_damaged_events_are_counted(self, tmp_path: Path) -> None:
        events = [TASK, TASK, action(2, "teleport"), 7, {"action": None}, action(3, "message", content="x")]
        found = trial(openhands_v0.read, tmp_path, events)
        assert found.report.skipped["duplicate_event"] == 1
        assert found.report.unknown["unknown"] == {"action/teleport": 1, "event": 2}

    def test_rows_nested_too_deeply_are_set_aside(self, tmp_path: Path) -> None:
        deep = '{"history":[{"action":"message","args":{"x":' + "[" * 990 + "]" * 990 + "}}]}\n"
        found = trial(
            openhands_v0.read, tmp_path, deep + lines([{"history": [TASK, action(2, "message", content="x")]}])
        )
        assert len(found.traces) == 1
        assert [item.reason for item in found.report.quarantined] == ["not JSON: nested too deeply"]

    def test_recognises_only_its_own(self) -> None:
        assert openhands_v0.recognises([TASK])
        assert openhands_v0.recognises(TASK)
        others: list[Any] = [
            None, [], {}, {"history": []}, {"action": "push", "ref": "x"}, {"history": [{"role": "user"}]},
            {"action": ["run"], "args": {}}, {"action": "ls -la", "args": {}, "source": "agent"},
        ]  # fmt: skip
        assert not any(map(openhands_v0.recognises, others))


def event(event_id: str, kind: str, source: str = "agent", **more: object) -> Row:
    return {"id": event_id, "timestamp": "t", "source": source, "kind": kind, **more}


def said(event_id: str, text: str, role: str = "user", **more: object) -> Row:
    source = "agent" if role == "assistant" else "user"
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return event(event_id, "MessageEvent", source, llm_message=message, **more)


def acted(event_id: str, response: str, call_id: str, thought: str = "", **more: object) -> Row:
    call = {"id": call_id, "name": "terminal", "arguments": '{"command":"ls"}'}
    thoughts = [{"type": "text", "text": thought}] if thought else []
    return event(event_id, "ActionEvent", thought=thoughts, tool_name="terminal", tool_call_id=call_id,
                 tool_call=call, llm_response_id=response, **more)  # fmt: skip


def observed(event_id: str, call_id: str, text: str, is_error: bool = False, **fields: object) -> Row:
    content = [{"type": "text", "text": text}]
    return event(event_id, "ObservationEvent", "environment", tool_name="terminal", tool_call_id=call_id,
                 action_id="x", observation={"content": content, "is_error": is_error, **fields})  # fmt: skip


class TestV1:
    def test_parallel_calls_and_what_the_model_saw_of_results(self, tmp_path: Path) -> None:
        events = [
            event(
                "s", "SystemPromptEvent", system_prompt={"text": "Be good."}, tools=[], dynamic_context={"text": "D"}
            ),
            said("u", "do it", extended_content=[{"type": "text", "text": "a skill"}]),
            acted("1", "r", "a", "<think>hm</think>Look.", reasoning_content="hm"),
            acted("2", "r", "b"),
            observed("3", "b", "two", is_error=True),
            observed("4", "a", "one", metadata={"exit_code": 1, "suffix": "\n[done]"}, exit_code=1),
        ]
        found = trial(openhands_v1.read, tmp_path, lines(events))
        assert found.trace.messages[0]["content"] == "Be good.\nD"
        assert found.texts(0) == ["do it\na skill"]
        assert found.results() == [
            ("one\n[done]\n[Command finished with exit code 1]", True),
            ("[An error occurred during execution.]\ntwo", True),
        ]
        assert found.trace.turns[0].thinking == "hm"
        assert found.trace.messages[2]["content"] == "Look."

    def test_errors_of_the_agent_and_rejections(self, tmp_path: Path) -> None:
        events = [
            said("u", "do it"),
            acted("1", "r1", "toolu_01"),
            event("2", "AgentErrorEvent", error="no such tool", tool_name="t", tool_call_id="toolu_01"),
            acted("3", "r2", "toolu_01"),
            event("4", "UserRejectObservation", "user", rejection_reason="no", tool_name="t", tool_call_id="toolu_01"),
            said("5", "bye", "assistant", llm_response_id="r3"),
        ]
        found = trial(openhands_v1.read, tmp_path, lines(events))
        assert found.results() == [("no such tool", True), ("Action rejected: no", True)]
        assert [turn.source_model for turn in found.trace.turns] == [None] * 3

    def test_condensation(self, tmp_path: Path) -> None:
        events = [
            event("s", "SystemPromptEvent", system_prompt={"text": "S"}),
            said("u", "do it"),
            acted("1", "r1", "a"), observed("2", "a", "one"),
            acted("3", "r2", "b"), observed("4", "b", "two"),
            event("c", "Condensation", forgotten_event_ids=["1", "2"], summary="SUM", summary_offset=2),
            acted("5", "r3", "c"), observed("6", "c", "three"),
            event("d", "Condensation", forgotten_event_ids=["3", "4", "c-summary"], summary="SUM2", summary_offset=2),
            said("v", "go on"),
            acted("7", "r4", "d"),
        ]  # fmt: skip
        found = trial(openhands_v1.read, tmp_path, lines(events))
        assert found.texts(2) == ["do it", "SUM", "", "two"]
        assert found.texts(3) == ["do it", "SUM2", "", "three", "go on"]

    def test_a_folder_of_events_with_its_state(self, tmp_path: Path) -> None:
        folder = tmp_path / "events"
        folder.mkdir()
        (tmp_path / "base_state.json").write_text(json.dumps({"id": "conv", "agent": {"llm": {"model": "gpt-5"}}}))
        for number, row in enumerate([said("u", "do it"), acted("1", "r", "a"), observed("2", "a", "out")]):
            (folder / f"event-{number:05d}-{row['id']}.json").write_text(json.dumps(row))
        found = Trial(openhands_v1.read, folder)
        assert found.trace.turns[0].source_model == "gpt-5"
        assert found.results() == [("out", False)]

    def test_the_model_from_statistics_and_bookkeeping_is_counted(self, tmp_path: Path) -> None:
        stats = {"usage_to_metrics": {"default": {"model_name": "minimax-m2"}}}
        events = [
            said("u", "do it"),
            acted("1", "r", "a"),
            acted("1", "r", "a"),
            event("2", "ConversationStateUpdateEvent", key="stats", value=stats),
            event("3", "NovelEvent"),
            observed("4", "zzz", "lost"),
        ]
        found = trial(openhands_v1.read, tmp_path, lines(events) + '{"kind": "Mess', "events.jsonl")
        assert found.trace.turns[0].source_model == "minimax-m2"
        assert found.report.skipped == {
            "duplicate_event": 1, "event/ConversationStateUpdateEvent": 1, "unknown/NovelEvent": 1,
            "result_without_call": 1, "torn_last_line": 1,
        }  # fmt: skip

    def test_rows_of_an_evaluation(self, tmp_path: Path) -> None:
        row = {"instance_id": "i", "history": [said("u", "x"), said("a", "y", "assistant", llm_response_id="r")],
               "test_result": {"report": {"resolved": False}}}  # fmt: skip
        assert openhands_v1.recognises(row)
        found = trial(openhands_v1.read, tmp_path, lines([row, {"history": []}]))
        assert (found.trace.task_id, found.trace.outcome) == ("i", 0.0)

    def test_long_output_is_clipped_as_for_the_model(self, tmp_path: Path) -> None:
        events = [said("u", "x"), acted("1", "r", "a"), observed("2", "a", "y" * 40_000, metadata={"exit_code": 0})]
        ((text, _),) = trial(openhands_v1.read, tmp_path, lines(events)).results()
        assert len(text) <= 30_000
        assert text.endswith("[Command finished with exit code 0]")


def log(*messages: Row, answer: Row, **more: object) -> Row:
    tools = [{"type": "function", "function": {"name": "execute_bash", "parameters": {"type": "object"}}}]
    response = {"id": f"r{len(messages)}", "model": "claude-sonnet-4", "choices": [{"message": answer}]}
    return {"messages": list(messages), "tools": tools, "kwargs": {}, "response": response, "timestamp": 1, **more}


SYSTEM = {"role": "system", "content": [{"type": "text", "text": "Be good."}]}
ASK = {"role": "user", "content": [{"type": "text", "text": "do it"}]}
LOOK = {"role": "assistant", "content": "Look.", "tool_calls": calls("a")}
SEEN = {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "out"}]}


class TestLogs:
    def test_a_log_is_exact_and_repeats_the_turns_of_earlier_logs(self, tmp_path: Path) -> None:
        done = {"role": "assistant", "content": "Done."}
        repeated = LOOK | {"content": [{"type": "text", "text": "Look."}]}
        first = trial(openhands_v1.read, tmp_path, log(SYSTEM, ASK, answer=LOOK), "1.json")
        second = trial(openhands_v1.read, tmp_path, log(SYSTEM, ASK, repeated, SEEN, answer=done), "2.json")
        assert second.roles(1) == "suat"
        assert second.trace.turns[1].fidelity == "exact"
        assert not second.trace.tools_inferred
        sessions = [next(openhands_v1.read(InputFile(tmp_path / name, ReadingReport(), redact=False)))
                    for name in ("1.json", "2.json")]  # fmt: skip
        assert sessions[1].keys[:1] == sessions[0].keys
        assert first.trace.messages[2] == second.trace.messages[2]

    def test_messages_before_their_translation_are_used(self, tmp_path: Path) -> None:
        text = {"role": "assistant", "content": "Look.\n\n<function=execute_bash>\n</function>"}
        translated = log(SYSTEM, ASK, text, answer=LOOK, raw_messages=[SYSTEM, ASK, LOOK, SEEN])
        found = trial(openhands_v1.read, tmp_path, translated)
        assert found.roles(1) == "suat"
        assert found.trace.turns[0].fidelity == "reconstructed"

    def test_calls_by_others_and_failed_calls_are_left_out(self, tmp_path: Path) -> None:
        rows = [
            log(ASK, answer=LOOK) | {"tools": []},
            {"messages": [ASK], "kwargs": {}, "error": {"type": "Timeout"}, "timestamp": 1, "latency_sec": 1},
            {"input": [], "kwargs": {}, "response": {"output": []}, "latency_sec": 1},
        ]
        assert all(map(openhands_v1.recognises, rows))
        found = trial(openhands_v1.read, tmp_path, lines(rows))
        assert not found.traces
        assert found.report.skipped == {"log/without_tools": 1, "log/without_response": 1, "log/responses_api": 1}

    def test_recognises_only_its_own(self) -> None:
        for other in (None, [], {}, {"kind": "Pod", "id": "x", "source": "y"}, {"kind": ["ActionEvent"]},
                      {"kind": "ActionEvent"}, {"messages": [ASK]}, {"history": [1]}):  # fmt: skip
            assert not openhands_v1.recognises(other)
