"""Contexts that are too long lose the same for teacher and student, in stored rollouts and in rendered sessions."""

import json

import pytest
import torch

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, make_task, trace_of
from composer_replication.hints.write import write_hints
from composer_replication.objective import SdpoSettings
from composer_replication.records import Source, Trace, Turn
from composer_replication.sites import find_sites
from composer_replication.store import RECORDS
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.stored.collator import ComposerDataCollator
from composer_replication.training.stored.examples import build_examples, summarise_cuts, window_lines
from composer_replication.training.stored.sessions import RenderedSessions
from composer_replication.windows import Cut, TurnHistory, fit_rendered

EVERYTHING = 10**6


@pytest.fixture
def played(chat_tokens, scripted):
    """Four turns, all of them wrong, and their hints."""
    task = make_task(ToolboxConfig(), "train", 10)
    texts = [Call(f"zero_{letter}", {"a": 1}).render() for letter in "abc"]
    texts.append(Call(task.listings[0].name, {}).render())
    rollout = scripted(chat_tokens, task, texts)
    trace = trace_of(rollout.episode, "policy", 0)
    return trace, *rollout.stored(trace.trace_id, "tokenizer")


def lessons(trace):
    sites = {site.site_id: site for site in find_sites(trace)}
    return sites, write_hints({trace.trace_id: trace}, sites.values(), 96).hints


def build(tokens, trace, max_tokens, rows=(), **others):
    sites, hints = lessons(trace)
    return build_examples(tokens, rows, sites, hints, [], max_tokens, traces=[trace], **others)


def test_sites_of_a_trace_that_fits_share_its_row(chat_tokens, played):
    trace, row = played
    [example], skipped = build(chat_tokens, trace, EVERYTHING, [row])
    assert not skipped
    assert (example.ids, example.cut, len(example.sites)) == (list(row.ids), Cut(), 4)


def test_teacher_and_student_lose_the_same_whole_turns(chat_tokens, played):
    trace, row = played
    starts = [start for start, _ in row.turn_spans]
    opening = list(row.ids[: starts[0]])
    windowed = 0
    for max_tokens in range(len(row.ids) + 100, 0, -1):
        examples, skipped = build(chat_tokens, trace, max_tokens, [row])
        assert sum(len(example.sites) for example in examples) + skipped["site_too_long"] == 4
        for example in examples:
            for site in example.sites:
                assert len(site.teacher_context) + site.end - site.start <= max_tokens
                hinted = [chat_tokens.splice_hint(example.ids[: site.start], hint.text) for hint in lessons(trace)[1]]
                assert site.teacher_context in hinted
            if example.cut != Cut():
                windowed += 1
                [site] = example.sites
                kept, turn = example.ids[len(opening) : site.start], starts.index(site.start + example.cut.tokens)
                assert example.ids[: len(opening)] == opening
                assert example.ids[site.start :] == list(row.ids[slice(*row.turn_spans[turn])])
                assert list(row.ids[starts[example.cut.turns] : starts[turn]]) == kept
                assert example.cut.tokens == starts[example.cut.turns] - starts[0]
                # The call before failed, and its error is what this turn answers.
                assert example.cut.turns < turn
    assert windowed


def test_a_windowed_site_trains(chat_tokens, played, make_model):
    trace, row = played
    model = make_model(len(chat_tokens.tokenizer))
    collate = ComposerDataCollator(chat_tokens.tokenizer.pad_token_id)
    channel = SelfDistillation(SdpoSettings(require_disfavour=False))
    [whole], _ = build(chat_tokens, trace, EVERYTHING, [row])
    longest = max(len(site.teacher_context) + site.end - site.start for site in whole.sites)
    examples, skipped = build(chat_tokens, trace, longest - 1, [row])
    assert not skipped
    with torch.no_grad():
        losses = [channel.loss(model, collate([example])) for example in (whole, *examples)]
    assert all(loss > 0 for loss in losses)


def session(turns=6, result=4000, thinking=False):
    """A session that reads long files and fails twice to run a tool."""
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "mend it " * 20}]
    spans = []
    for number in range(turns):
        failed = number in (turns - 3, turns - 1)
        function = {"name": "run" if failed else "read", "arguments": json.dumps({"path": f"file{number}"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        text = f"error: no such file file{number}" if failed else f"{number} line of text\n" * (result // 14)
        answer = {"role": "tool", "content": text, "tool_call_id": call["id"]}
        spans.append(Turn(start=len(messages), end=len(messages) + 2, source_model="m", family="m"))
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({**answer, "is_error": True} if failed else answer)
    return Trace(trace_id="s", source=Source(agent="x"), messages=tuple(messages), turns=tuple(spans))


@pytest.fixture
def policy(chatml_tokenizer):
    return Policy("chatml", None, ChatTokens(chatml_tokenizer("<|pad|>")))


def rendered(policy, trace, max_tokens, folder=None):
    sessions = RenderedSessions(policy, max_tokens, folder)
    examples, skipped = build(policy.tokens, trace, max_tokens, sessions=sessions)
    return examples, skipped, sessions


def test_a_session_is_rendered_once_and_its_states_are_its_beginnings(policy, tmp_path):
    trace = session()
    [example], skipped, sessions = rendered(policy, trace, EVERYTHING, tmp_path)
    assert not skipped
    assert (sessions.rendered, len(sessions.alone), len(example.sites)) == (1, 0, 2)
    for site, turn in zip(example.sites, (3, 5), strict=True):
        assert example.ids[: site.start] == sessions.contexts.opened(trace.history(turn), trace.tools)
    sessions.save()
    [again], _, reused = rendered(policy, trace, EVERYTHING, tmp_path)
    assert (again, reused.rendered) == (example, 0)
    assert (tmp_path / RECORDS).exists()


def test_a_long_session_is_windowed_before_it_is_given_up(policy):
    trace = session()
    [whole], _, _ = rendered(policy, trace, EVERYTHING)
    room = len(whole.ids) // 3
    examples, skipped, sessions = rendered(policy, trace, room)
    assert not skipped
    assert sum(len(example.sites) for example in examples) == 2
    assert not sessions.alone
    last = examples[-1]
    text = policy.tokenizer.decode(last.ids)
    assert last.cut.elided_messages
    assert last.cut.tokens == whole.sites[-1].start - last.sites[0].start
    assert "characters cut ...]" in text
    # The system prompt, the task, the call that failed before, its error, and the turn.
    for kept in ("You are an agent.", "mend it " * 20, '"path":"file3"', "no such file file3", '"path":"file5"'):
        assert kept in text.replace('": "', '":"')
    assert summarise_cuts(examples)["examples"] == len(window_lines(examples).splitlines()) > 0


def test_what_sizes_do_not_show_is_made_room_for_at_once():
    """Turns of 400, and 250 that a template adds: the last turn alone fits, however little both are over."""
    turn = [{"role": "assistant", "content": "x" * 400}]
    history = TurnHistory([{"role": "user", "content": ""}, *turn, *turn], turn[0])
    found = fit_rendered(
        history, 1000, 0, lambda message: len(message["content"]), lambda shown: said(shown) + "t" * 250
    )
    assert found is not None
    assert (len(found[0]), found[1].cut) == (650, Cut(turns=1, elided_messages=0, tokens=400))


def test_a_template_that_adds_less_to_a_smaller_window_does_not_lose_it():
    """By the overhead of both turns the last one would not fit either."""
    turn = [{"role": "assistant", "content": "x" * 400}]
    asked = {"role": "user", "content": ""}
    history = TurnHistory([asked, *turn, *turn, asked], turn[0])
    found = fit_rendered(history, 1000, 0, lambda message: len(message["content"]), lambda shown: said(shown) * 2)
    assert found is not None
    assert (len(found[0]), found[1].cut.turns) == (800, 1)
    assert fit_rendered(history, 1000, 0, lambda message: 0, lambda shown: "x" * 1001) is None


def said(messages) -> str:
    return "".join(message["content"] for message in messages)


def test_every_room_gives_a_window_that_fits_or_none(policy):
    trace = session(result=700)
    found = set()
    for room in range(40, 900, 43):
        examples, skipped, _ = rendered(policy, trace, room)
        sites = [(example, site) for example in examples for site in example.sites]
        assert len(sites) + skipped["site_too_long"] == 2
        for example, site in sites:
            assert len(site.teacher_context) + site.end - site.start <= room
            assert "no such file file3" in policy.tokenizer.decode(example.ids) or site is sites[0][1]
        found.add(len(sites))
    assert found == {0, 1, 2} or found == {0, 2}


def test_a_template_that_rewrites_earlier_turns_is_rendered_state_by_state(policy):
    """It shows the last result alone, so no state is the beginning of another."""
    content = "(m['content'] if m['role'] != 'tool' or loop.last else m['content'][:20])"
    template = policy.tokenizer.chat_template.replace("m['content']", content)
    policy.tokenizer.chat_template = template
    assert content in template
    forgetful = Policy("forgetful", None, ChatTokens(policy.tokenizer))
    trace = session()
    examples, skipped, sessions = rendered(forgetful, trace, EVERYTHING)
    assert not skipped
    assert (sessions.rendered, len(sessions.alone), len(examples)) == (0, 2, 2)
    for example, turn in zip(examples, (3, 5), strict=True):
        [site] = example.sites
        assert example.ids[: site.start] == sessions.contexts.opened(trace.history(turn), trace.tools)
    short, skipped, sessions = rendered(forgetful, trace, len(examples[-1].ids) // 3)
    assert not skipped
    assert len(sessions.alone) == 2
    assert all(example.cut != Cut() for example in short)
    assert all(len(site.teacher_context) + site.end - site.start <= sessions.max_tokens
               for example in short for site in example.sites)  # fmt: skip
