"""What people say in a session, and which of it corrects the turn before. All sentences are made up."""

from __future__ import annotations

import pytest

from composer_replication.records import Message, Segment, Source, Trace, Turn
from composer_replication.sites import find_sites
from composer_replication.sites.corrections import corrections
from composer_replication.sites.spoken import spoken

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. …). "


def session(*said: str, agent_said: str = "Done, the parser is in lib.", result: str | None = None) -> Trace:
    """A first request, one turn, and what stands after it in the user's name."""
    messages: list[Message] = [{"role": "user", "content": "write a parser"}]
    turn: Message = {"role": "assistant", "content": agent_said}
    if result is not None:
        turn["tool_calls"] = [{"id": "c", "type": "function", "function": {"name": "Edit", "arguments": "{}"}}]
    messages.append(turn)
    if result is not None:
        messages.append({"role": "tool", "tool_call_id": "c", "content": result, "is_error": True})
    end = len(messages)
    messages += [{"role": "user", "content": text} for text in said]
    source = Source(agent="claude_code")
    return Trace(trace_id="t", source=source, messages=tuple(messages), turns=(Turn(start=1, end=end),))


CORRECTIONS = {
    "prohibition": "please don't touch the lexer",
    "unwanted": "I don't want a new file for this",
    "meant": "I meant the other parser",
    "contrast": "it goes to core, not the lib folder",
    "instead": "use the old reader instead",
    "already": "there's already a tokenizer in core",
    "ought": "the parser should live in core",
    "fails": "the parser still does not work",
    "verdict": "that name is confusing",
    "blame": "why did you delete the test?",
    "doubt": "shouldn't it return a list?",
    "second_thought": "hmm, can we go without classes",
    "change_back": "revert that",
    "objection": "but the reader has no state",
    "wording": "be more concise",
    "conventions": "no more comments please",
    "half_done": "you didn't run the tests",
}


@pytest.mark.parametrize("rule", CORRECTIONS)
def test_a_correction_is_heard(rule):
    [found] = corrections(session(CORRECTIONS[rule]))
    assert (found.rule, found.said.turn) == (rule, 0)


@pytest.mark.parametrize(
    "said",
    [
        "yes", "ok thanks", "great, now the printer", "continue", "2", "what does the parser return?",
        "can you explain how it works?", "also write a test", "commit and push", "does it run on Windows too?",
        "add a flag. the flag should be off by default", "if it fails, tell me", "is there a way to see the tree?",
        "looks good", "no problem", "run the tests and check what is missing",
    ],
)  # fmt: skip
def test_what_is_no_correction_is_none(said):
    assert list(corrections(session(said))) == []


def test_the_first_message_of_a_session_corrects_nothing():
    trace = session()
    first: Message = {"role": "user", "content": "the build is broken, that is wrong"}
    trace = trace.model_copy(update={"messages": (first, *trace.messages[1:])})
    assert list(corrections(trace)) == []


def test_quoted_text_and_code_are_not_the_users_words():
    quoted = 'here is the log:\n```\nthis should not happen\n```\n> you forgot it\n"it is wrong and too long"'
    assert list(corrections(session(quoted))) == []


def test_only_the_sentences_that_correct_are_kept():
    [found] = corrections(session("That belongs in core, not in lib. Then write the docs for it."))
    assert found.words == "That belongs in core, not in lib."


@pytest.mark.parametrize(
    ("said", "stopped"),
    [
        ("the tests come first", True),
        ("continue", False),
        ("why is the file so large", False),
        ("can you look at the lexer", False),
    ],
)
def test_a_stop_needs_words_that_say_what_is_wrong(said, stopped):
    sites = find_sites(session("[Request interrupted by user]", said))
    assert [site.error_kind for site in sites] == (["interruption"] if stopped else [])


def test_an_answer_to_a_question_is_no_interruption():
    assert find_sites(session("[Request interrupted by user]", "the second one", agent_said="Which of them?")) == []


def test_a_refusal_explained_in_the_next_message_keeps_its_reason():
    [site] = find_sites(session("never push to main", result=REFUSED))
    assert site.error_kind == "user_rejection"
    assert site.error_message.endswith("The user then said:\nnever push to main")


def test_a_refusal_followed_by_another_request_has_no_reason():
    [site] = find_sites(session("what is in the lexer?", result=REFUSED))
    assert "lexer" not in site.error_message


def test_a_reason_that_came_with_the_refusal_is_the_users_word():
    [said] = [said for said in spoken(session(result=f"{REFUSED}the user said:\nnot like that")) if said.turn == 0]
    assert (said.text, said.rejected) == ("not like that", True)


@pytest.mark.parametrize(
    "notice",
    [
        "<system-reminder>you should not stop</system-reminder>", "<command-name>/clear</command-name>",
        "<task-notification>that failed</task-notification>", "Base directory for this skill: /a\nDo not stop.",
        "This session is being continued from a previous conversation. It was wrong.", "[Request interrupted by user]",
        "<bash-input>git pull</bash-input>", "/compact",
    ],
)  # fmt: skip
def test_what_a_harness_writes_in_the_users_name_is_not_spoken(notice):
    assert [said.text for said in spoken(session(notice))] == ["write a parser"]


def test_words_beside_a_notice_and_the_arguments_of_a_command_are_spoken():
    command = "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
    texts = [
        "<system-reminder>x</system-reminder>use tabs",
        f"{command}<command-args>the lexer</command-args>",
        "You are a reviewer of code.",
    ]
    assert [said.text for said in spoken(session(*texts))] == ["write a parser", "use tabs", "the lexer"]


def test_what_a_compaction_repeats_is_spoken_once_and_a_rewind_goes_back_to_its_turn():
    trace = session("use tabs", "write a parser", "and now?")
    compacted = trace.model_copy(update={"segments": (Segment(start=0), Segment(start=3))})
    assert [said.text for said in spoken(compacted)] == ["write a parser", "use tabs", "and now?"]
    rewound = trace.model_copy(update={"segments": (Segment(start=0), Segment(start=3, continues=(0, 1)))})
    assert [said.turn for said in spoken(rewound)] == [None, 0, None, None]
