"""Spliced ids equal what the chat template renders, and the tiny tokenizer loses nothing of the toolbox."""

from __future__ import annotations

import pytest

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import (
    SPLITS,
    TOOLS,
    Call,
    ToolboxEpisode,
    make_task,
    next_call,
    trace_of,
)
from composer_replication.environments.toolbox.oracle import vocabulary
from composer_replication.environments.toolbox.tasks import KEYS, PATHS
from composer_replication.errors import UsageError
from composer_replication.hints.write import write_hints
from composer_replication.sites import find_sites
from composer_replication.training.models.tiny import build_tokenizer
from composer_replication.training.models.tokens import ChatTokens
from tests.headers import header_ids

HINT = "Reminder: a call is one JSON object."
CONFIGS = {
    "default": ToolboxConfig(),
    "verbs renamed, ints quoted": ToolboxConfig(rename_verbs=True, rename_rate=1.0, quoted_int_rate=1.0),
}


def conversations(count: int = 8):
    """Toolbox conversations with an error in their first turn, as (prompt messages, [(turn, observation)])."""
    for index in range(count):
        task = make_task(ToolboxConfig(), SPLITS[index % 4], index)
        episode = ToolboxEpisode(task)
        turns = [('{"name":"zero_gate","arguments":{"a":1}}', "")]
        while not episode.finished:
            if episode.turns:
                call = next_call(episode)
                turns.append((call.render() if call else "done", ""))
            turns[-1] = (turns[-1][0], episode.step(turns[-1][0]).observation or "ok")
        yield task.messages, turns


def render(tokens, messages, add_generation_prompt=True):
    return tokens.tokenizer.apply_chat_template(
        messages, tokenize=True, return_dict=False, add_generation_prompt=add_generation_prompt
    )


def test_splicing_turns_and_observations_equals_rendering_the_conversation(chat_tokens):
    for prompt, turns in conversations():
        messages, ids = list(prompt), chat_tokens.prompt(prompt)
        assert ids == render(chat_tokens, messages)
        for text, observation in turns:
            ids = [*ids, *chat_tokens.turn(text)]
            messages = [*messages, {"role": "assistant", "content": text}]
            closed = render(chat_tokens, messages, add_generation_prompt=False)
            assert closed[: len(ids)] == ids
            ids = [*ids, *chat_tokens.after_turn(observation)]
            messages = [*messages, {"role": "tool", "content": observation}]
            assert ids == render(chat_tokens, messages)


def test_a_spliced_hint_equals_rendering_it_as_a_user_message(chat_tokens):
    hint = {"role": "user", "content": HINT}
    for prompt, turns in conversations(4):
        messages, ids = list(prompt), chat_tokens.prompt(prompt)
        assert chat_tokens.splice_hint(ids, HINT) == render(chat_tokens, [*messages, hint])
        for text, observation in turns:
            ids = [*ids, *chat_tokens.turn(text), *chat_tokens.after_turn(observation)]
            messages += [{"role": "assistant", "content": text}, {"role": "tool", "content": observation}]
            assert chat_tokens.splice_hint(ids, HINT) == render(chat_tokens, [*messages, hint])


def test_splicing_leaves_the_context_and_earlier_splices_alone(chat_tokens):
    ids = chat_tokens.prompt(make_task(ToolboxConfig(), "train", 0).messages)
    before = list(ids)
    first = chat_tokens.splice_hint(ids, HINT)
    second = chat_tokens.splice_hint(ids, HINT)
    assert ids == before
    assert first == second
    assert first is not second


def test_a_hint_is_refused_where_no_assistant_header_is_open(chat_tokens):
    ids = chat_tokens.prompt(make_task(ToolboxConfig(), "train", 0).messages)
    for context in (ids[:-1], [*ids, *chat_tokens.turn("done")], []):
        with pytest.raises(ValueError, match="does not end with the assistant header"):
            chat_tokens.splice_hint(context, HINT)


def test_a_turn_reads_back_as_it_was_written(chat_tokens):
    for _, turns in conversations():
        for text, _ in turns:
            ids = chat_tokens.turn(text)
            assert ids[-1] == chat_tokens.end_of_turn_id
            assert chat_tokens.end_of_turn_id not in ids[:-1]
            assert chat_tokens.text(ids) == text
            assert chat_tokens.text(ids[:-1]) == text


@pytest.mark.parametrize("pad_token", ["<|pad|>", "<|im_end|>"])
def test_any_text_reads_back_under_a_byte_level_tokenizer(pad_token, chatml_tokenizer):
    tokens = ChatTokens(chatml_tokenizer(pad_token))
    for text in ("", " spaces , before . marks 's n't ", "\n\nlines\n", "naïve ✓ 漢字 🙂", '{"a":"\\u00e9"}'):
        assert tokens.text(tokens.turn(text)) == text


def test_end_of_turn_is_the_template_s_own_mark(chatml_tokenizer):
    tokens = ChatTokens(chatml_tokenizer("<|im_end|>"))
    assert tokens.end_of_turn_id == tokens.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert tokens.tokenizer.decode(header_ids(tokens)) == "<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "what"),
    [
        (None, "no chat template"),
        ("{% for m in messages %}{{ m['content'] + '\n' }}{% endfor %}", "without a special token"),
    ],
)
def test_a_tokenizer_that_cannot_serve_is_refused(template, what, chatml_tokenizer):
    tokenizer = chatml_tokenizer("<|pad|>")
    tokenizer.chat_template = template
    with pytest.raises(UsageError, match=what):
        ChatTokens(tokenizer)


def test_a_template_that_rewrites_earlier_messages_is_refused_at_once(chatml_tokenizer):
    tokenizer = chatml_tokenizer("<|pad|>")
    tokenizer.chat_template = "{{ messages | length }}" + tokenizer.chat_template
    with pytest.raises(UsageError, match="rewrites earlier messages"):
        ChatTokens(tokenizer)


def clumsy_turns(task):
    """Texts that fail in every way the toolbox knows: names, types, files, keys, words, syntax, repetition."""
    call = next_call(ToolboxEpisode(task))
    unlisted = next(tool.name for tool in TOOLS if tool.name not in {entry.name for entry in task.listings})
    file, key = next(iter(task.start.files)), next(iter(task.start.keys))
    no_file = next(path for path in PATHS if path not in task.start.files)
    no_key = next(name for name in KEYS if name not in task.start.keys)
    yield [compact(unlisted, {}), compact(unlisted, {}), call.render()]
    yield [compact(call.name, {}), call.render()[:-1]]
    yield [compact(call.name, {name: retype(value) for name, value in call.arguments.items()}), '{"key":5}']
    worlds: list[dict[str, str]] = [
        {"path": no_file, "key": no_key, "source": no_file, "target": file, "first": key, "second": no_key},
        {"path": file, "key": key, "source": no_key, "target": key, "first": no_key, "second": key},
        {"path": file, "source": file, "target": file},
    ]
    for entry in task.listings:
        for world in worlds:
            arguments = {name: world.get(name, "zebra") if kind == "str" else 5 for name, kind in entry.types.items()}
            yield [compact(entry.name, arguments)] * 2


def compact(name, arguments):
    return Call(name, arguments).render()


def retype(value):
    return int(value) if isinstance(value, str) and value.isdigit() else str(value) if isinstance(value, int) else 5


def toolbox_texts(config: ToolboxConfig):
    """What the environment, the oracle and the hint templates write."""
    for split in SPLITS:
        for index in range(300):
            task = make_task(config, split, index)
            yield from (message["content"] for message in task.messages)
            episode = ToolboxEpisode(task)
            while not episode.finished:
                call = next_call(episode)
                text = call.render() if call else "done"
                yield text
                yield episode.step(text).observation or ""
            if index < 25:
                yield from answers_to_mistakes(task)


def answers_to_mistakes(task):
    for sample, turns in enumerate(clumsy_turns(task)):
        episode = ToolboxEpisode(task)
        for text in turns:
            if not episode.finished:
                yield episode.step(text).observation or ""
        trace = trace_of(episode, "policy", sample)
        written = write_hints({trace.trace_id: trace}, find_sites(trace), 96)
        yield from (hint.text for hint in written.hints if hint.layer == "template")


def assert_covered(tokenizer, texts):
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    assert [text for text, ids in zip(texts, rows, strict=True) if tokenizer.unk_token_id in ids] == []
    assert [text for text, ids in zip(texts, rows, strict=True) if tokenizer.decode(ids) != text] == []


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS.keys())
def covered(request):
    return request.param, build_tokenizer(vocabulary(request.param))


def test_tiny_tokenizer_covers_what_the_toolbox_says(covered):
    config, tokenizer = covered
    texts = sorted(set(toolbox_texts(config)))
    hints = [text for text in texts if text.startswith("Reminder")]
    errors = [text for text in texts if text.startswith("error: ")]
    starts = ("no tool", "no file", "no key", "no zebra in", "the turn is not valid", "the turn is not one call")
    for start in starts:
        assert any(text.split(": ", 2)[2].startswith(start) for text in errors), start
    for end in ("exists", "must be int" if config.quoted_int_rate < 1 else "must be a number in quotes", "must be str"):
        assert any(text.endswith(end) for text in errors), end
    for mark in ("tools listed", "one JSON object", " takes ", "It says", "failed before"):
        assert any(mark in text for text in hints), mark
    assert_covered(tokenizer, texts)


def test_tiny_tokenizer_covers_calls_that_a_careless_policy_writes(covered):
    config, tokenizer = covered
    tasks = [make_task(config, split, index) for split in SPLITS for index in range(25)]
    assert_covered(tokenizer, sorted({text for task in tasks for turns in clumsy_turns(task) for text in turns}))


def test_tiny_prompts_and_full_episodes_fit_its_window(tiny_tokens):
    for prompt, turns in conversations(40):
        ids = tiny_tokens.prompt(prompt)
        for text, observation in turns:
            ids = [*ids, *tiny_tokens.turn(text), *tiny_tokens.after_turn(observation)]
        assert len(ids) < tiny_tokens.tokenizer.model_max_length


def test_a_template_that_forgets_thoughts_takes_hints_too(tiny_tokens):
    """As Qwen3's does: what an assistant thought is rendered until a user speaks again."""
    forgetful = (
        "{% set last = namespace(user=0) %}{% for m in messages %}{% if m['role'] == 'user' %}"
        "{% set last.user = loop.index0 %}{% endif %}{% endfor %}"
        "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}"
        "{% if m['role'] == 'assistant' and loop.index0 > last.user %}{{ 'ok' }}{% endif %}"
        "{{ m['content'] + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    tokens = ChatTokens(tiny_tokens.tokenizer, forgetful)
    context = tokens.prompt([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    spliced = tokens.splice_hint(context, "done")
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "user", "content": "done"}]
    assert spliced == tokens.prompt(asked)
