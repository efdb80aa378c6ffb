"""A context that is too long loses its oldest whole turns, the same ones for teacher and student."""

import pytest
import torch

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.hints.write import write_hints
from composer_replication.objective import SdpoSettings
from composer_replication.sites import find_sites
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.stored.collator import ComposerDataCollator
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample
from composer_replication.training.stored.windowing import (
    Window,
    fitting_window,
    last_turns,
    windowed_pair,
    windowed_site,
)


@pytest.fixture
def played(chat_tokens, scripted):
    """Four turns, all of them wrong, and the hint of the last."""
    task = make_task(ToolboxConfig(), "train", 10)
    texts = [Call(f"zero_{letter}", {"a": 1}).render() for letter in "abc"]
    texts.append(Call(task.listings[0].name, {}).render())
    rollout = scripted(chat_tokens, task, texts)
    trace = trace_of(rollout.episode, "policy", 0)
    row = rollout.stored(trace.trace_id, "tokenizer")
    hints = {
        site.turn: hint for site in find_sites(trace) for hint in write_hints({trace.trace_id: trace}, [site], 96).hints
    }
    assert sorted(hints) == [0, 1, 2, 3]
    return task, trace, row, hints


def starts(row):
    return [start for start, _ in row.turn_spans]


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_a_windowed_context_is_the_conversation_without_those_turns(chat_tokens, played, keep):
    task, trace, row, _ = played
    window = last_turns(starts(row), 3, keep)
    kept = trace.turns[3 - keep : 3]
    messages = [*task.messages]
    for turn in kept:
        messages += [
            {"role": message["role"], "content": chat_tokens.text(row.ids[slice(*row.turn_spans[number])])}
            if message["role"] == "assistant"
            else {"role": "tool", "content": message["content"]}
            for number, message in [
                (trace.turns.index(turn), trace.messages[place]) for place in range(turn.start, turn.end)
            ]
        ]
    assert window.apply(row.ids[: row.turn_spans[3][0]]) == chat_tokens.prompt(messages)
    assert window.dropped_turns == 3 - keep


def test_as_few_turns_as_possible_are_dropped(played):
    _, _, row, _ = played
    begins = starts(row)
    needed = row.turn_spans[3][1]
    sizes = [begins[n] - begins[0] for n in range(4)]
    for dropped in range(4):
        most = needed - sizes[dropped]
        assert fitting_window(begins, 3, needed, most) == Window(begins[0], begins[dropped], dropped)
        if dropped < 3:
            assert fitting_window(begins, 3, needed, most - 1).dropped_turns == dropped + 1
    assert fitting_window(begins, 3, needed, needed - sizes[3] - 1) is None


def test_teacher_and_student_lose_the_same_ids(chat_tokens, played):
    _, _, row, hints = played
    start, end = row.turn_spans[3]
    whole = windowed_site(chat_tokens, row, 3, hints[3], 10_000)
    assert whole.ids == list(row.ids[:end])
    assert whole.sites[0].teacher_context == chat_tokens.splice_hint(row.ids[:start], hints[3].text)
    for max_tokens in range(len(whole.sites[0].teacher_context) + end - start, 0, -1):
        short = windowed_site(chat_tokens, row, 3, hints[3], max_tokens)
        if short is None:
            break
        [site] = short.sites
        assert len(site.teacher_context) + site.end - site.start <= max_tokens
        assert short.ids[site.start : site.end] == list(row.ids[start:end])
        assert [i for i, flag in enumerate(short.response_mask) if flag] == list(range(site.start, site.end))
        assert site.teacher_context == chat_tokens.splice_hint(short.ids[: site.start], hints[3].text)
    assert short is None
    assert max_tokens > 1


def test_a_windowed_site_trains(chat_tokens, played, make_model):
    _, _, row, hints = played
    model = make_model(len(chat_tokens.tokenizer))
    collate = ComposerDataCollator(chat_tokens.tokenizer.pad_token_id)
    channel = SelfDistillation(SdpoSettings(require_disfavour=False))
    start, end = row.turn_spans[3]
    teacher = chat_tokens.splice_hint(row.ids[:start], hints[3].text)
    full = TraceExample(list(row.ids), [0] * len(row.ids), 0.0, [SiteTokens(start, end, teacher)])
    unshortened = windowed_site(chat_tokens, row, 3, hints[3], 10_000)
    short = windowed_site(chat_tokens, row, 3, hints[3], len(teacher) + end - start - 1)
    assert len(short.ids) < len(unshortened.ids)
    with torch.no_grad():
        expected, same, windowed = (channel.loss(model, collate([one])) for one in (full, unshortened, short))
    assert torch.allclose(expected, same, atol=1e-6)
    assert windowed > 0
    assert not torch.allclose(expected, windowed, atol=1e-6)


def test_a_windowed_pair_forgets_its_reference(played):
    _, _, row, _ = played
    prompt = list(row.ids[: row.turn_spans[3][0]])
    pair = PairTokens(prompt, [1, 2, 3], [4], reference_chosen=-1.0, reference_rejected=-2.0, label_smoothing=0.1)
    short = windowed_pair(row, 3, pair, len(prompt) + 2)
    assert short.prompt == prompt[: row.turn_spans[0][0]] + prompt[row.turn_spans[1][0] :]
    assert (short.chosen, short.rejected, short.label_smoothing) == ([1, 2, 3], [4], 0.1)
    assert (short.reference_chosen, short.reference_rejected) == (0.0, 0.0)
    assert windowed_pair(row, 3, pair, 5) is None


def test_the_right_call_is_still_known(chat_tokens, played):
    """The task is in the part that is always kept."""
    task, _, row, _ = played
    window = last_turns(starts(row), 3, 0)
    assert window.apply(row.ids[: row.turn_spans[3][0]]) == chat_tokens.prompt(task.messages)
    assert next_call(ToolboxEpisode(task)).name in chat_tokens.text(window.apply(row.ids))
