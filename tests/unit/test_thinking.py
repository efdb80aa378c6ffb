"""Policies that think, are cut off, or call tools in their own form: rollouts, sites, stored turns and settings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from composer_replication.config import Config, ModelConfig, ToolboxConfig, parse_config
from composer_replication.environments.calls import Call, marked
from composer_replication.environments.code.episodes.session import ToolResult
from composer_replication.environments.code.episodes.text_episode import TextEpisode
from composer_replication.environments.code.episodes.turns import Taken
from composer_replication.environments.foreign.play import ForeignEpisode
from composer_replication.environments.protocol import EpisodeLimits, PlainAnswer
from composer_replication.environments.toolbox import ToolboxEpisode, make_task, next_call
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.objective import SdpoSettings
from composer_replication.training.lessons.online_sites import HintedTurn, Rolled, TraceHinter, find_online_sites
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.rollouts.sampling import SampledTurn
from composer_replication.training.rollouts.worker import RolloutSettings, RolloutWorker
from composer_replication.training.stored.contexts import Contexts
from tests.golden.templates.tokenizers import template_tokenizer
from tests.headers import header_ids

QUIET = {"enable_thinking": False}


class Writes:
    """A sampler that writes what it is told, cut off where `max_new_tokens` is reached."""

    batch, max_tokens = 8, None

    def __init__(self, tokens, texts):
        self._tokens, self._texts = tokens, iter(texts)

    def sample(self, slots, contexts, *, max_new_tokens, temperature, generator=None, on_turn=None):
        turns = []
        for _ in slots:
            ids = self._tokens.tokenizer(next(self._texts), add_special_tokens=False)["input_ids"]
            ids = [*ids, self._tokens.end_of_turn_id][:max_new_tokens]
            turns.append(SampledTurn(ids, [-0.5] * len(ids)))
        return turns


def rolled(tokens, episode, texts, max_turn_tokens=4096):
    settings = RolloutSettings(max_turn_tokens=max_turn_tokens, temperature=1.0)
    (rollout,) = RolloutWorker(Writes(tokens, texts), tokens, settings).run([episode])
    return rollout


def oracle_texts(task, form):
    """What solves the task, each turn in the given form."""
    episode, texts = ToolboxEpisode(task), []
    while not episode.finished:
        call = next_call(episode)
        texts.append(form(call) if call else "done")
        episode.step(call.render() if call else "done")
    return texts


FORMS = {
    "qwen3": lambda call: f"<think>\n\n</think>\n\n{call.render()}",
    "qwen3.5": lambda call: f"I see.\n</think>\n\n{call.render()}",
    "qwen2.5": lambda call: marked(call),
    "llama3.2": lambda call: call.render().replace('"arguments":', '"parameters": ').replace('"name":', '"name": '),
    "kimi-k2": lambda call: (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{call.name}:0<|tool_call_argument_begin|>"
        f"{Call('', call.arguments).render().split(':', 2)[2][:-1]}<|tool_call_end|><|tool_calls_section_end|>"
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_oracle_earns_its_reward_in_the_model_s_own_form(name):
    tokens, task = ChatTokens(template_tokenizer(name)), make_task(ToolboxConfig(), "train", 3)
    texts = oracle_texts(task, FORMS[name])
    if name == "qwen3.5":
        texts[-1] = "Over.\n</think>\n\ndone" if texts[-1] == "done" else texts[-1]
    rollout = rolled(tokens, ToolboxEpisode(task), texts)
    assert rollout.reward == 1.0
    assert all("think" not in turn.text for turn in rollout.turns)
    start, end = rollout.turn_spans[0]
    assert tokens.text(rollout.completion_ids[start:end]) == texts[0]


class Talks:
    """Says back how much it heard, three times."""

    evidence, reward, tools = None, 1.0, ()
    messages = ({"role": "system", "content": "s"}, {"role": "user", "content": "u"})

    def __init__(self):
        self.heard = []

    @property
    def finished(self):
        return len(self.heard) == 3

    def step(self, turn):
        self.heard.append(turn)
        return PlainAnswer(f"heard {len(turn)}")


@pytest.mark.parametrize("name", ["smollm2", "qwen3", "llama3.2", "gemma3"])
def test_a_turn_that_was_cut_off_is_closed_in_the_next_context_and_not_trained(name):
    tokens = ChatTokens(template_tokenizer(name))
    rollout = rolled(tokens, Talks(), ["abcdefgh", "short", "x"], max_turn_tokens=8)
    (start, end), (second, ended), (third, _) = rollout.turn_spans
    assert tokens.text(rollout.completion_ids[start:end]) == "abcdefgh"
    between = [tokens.end_of_turn_id, *tokens.after_turn("heard 8")]
    assert rollout.completion_ids[end:second] == between
    assert rollout.sampled_mask[end:second] == [0] * len(between)
    assert rollout.logprobs[end:second] == [0.0] * len(between)
    assert rollout.completion_ids[ended:third] == tokens.after_turn("heard 5")


def test_hints_are_told_under_the_settings_that_the_rollouts_were_sampled_under():
    quiet, task = (
        ChatTokens(template_tokenizer("qwen3"), chat_template_kwargs=QUIET),
        make_task(ToolboxConfig(), "train", 3),
    )
    rollout = rolled(quiet, ToolboxEpisode(task), [Call("zero_gate", {}).render(), *oracle_texts(task, Call.render)])
    row = Rolled(rollout.trace("policy", 0), rollout.prompt_ids, rollout.completion_ids, rollout.sampled_mask)
    hinter = lambda traces: [[HintedTurn(0, "tool_not_found", "No such tool."), HintedTurn(1, "type_error", "Look.")]]  # noqa: E731
    (sites,), dropped = find_online_sites([row], hinter, quiet, SdpoSettings(sites_per_rollout=2))
    assert [site.turn for site in sites] == [0, 1]
    assert not +dropped
    for site in sites:
        context = rollout.prompt_ids + rollout.completion_ids[: site.start]
        added = len(site.teacher_context) - len(context)
        assert quiet.tokenizer.decode(site.teacher_context).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
        assert site.hint in quiet.tokenizer.decode(
            site.teacher_context[len(context) - len(header_ids(quiet)) :][:added]
        )
    with pytest.raises(UsageError, match="no hint can be told before turn 0"):
        find_online_sites([row], hinter, ChatTokens(template_tokenizer("llama3.2")), SdpoSettings())


def test_calls_are_read_under_the_response_template_that_a_model_ships():
    tokenizer = template_tokenizer("smollm2")
    calls = {
        "open_pattern": r"CALL (?P<name>\w+) ",
        "close": ";",
        "repeats": True,
        "content": "json",
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
    }
    said = {"close": "<|im_end|>", "content": "text"}
    tokenizer.response_template = {"start_anchor": "assistant", "fields": {"tool_calls": calls, "content": said}}
    tokens = ChatTokens(tokenizer)
    prompt = tokens.prompt(Talks.messages)
    written = tokens.turn('Two. CALL read_file {"path": "a"};CALL read_file {"path": "b"};')
    made = [marked(Call("read_file", {"path": path})) for path in "ab"]
    assert tokens.said(prompt, written) == "\n".join(["Two.", *made])
    broken = "CALL read_file {path;"
    assert tokens.said(prompt, tokens.turn(broken)) == broken


class Foreign(ForeignEpisode):
    agent, reward = "foreign", 0.0

    def close(self):
        """Nothing is held."""

    def _act(self, reply):
        return [{"role": "tool", "content": f"{len(reply.calls)} calls"}]


class InWords(TextEpisode):
    def open_session(self):
        return SimpleNamespace()

    def take(self, session, turn):
        return Taken([ToolResult(turn)], called=True)


def test_environments_that_are_handed_raw_text_leave_thoughts_out():
    """As servers and other trainers do."""
    call = marked(Call("read_file", {"path": "a"}))
    task = SimpleNamespace(task_id="t", messages=Talks.messages)
    world = SimpleNamespace(limits=EpisodeLimits(turns=3), rewards=(0.0, 1.0))
    foreign = Foreign(world, task, [{"type": "function", "function": {"name": "read_file"}}])
    assert foreign.step(f"<think>\n{call}\n</think>\n\n{call}").observation == "1 calls"
    assert "think" not in str(foreign.transcript.messages)
    known = SimpleNamespace(provenance={}, task=SimpleNamespace(task_id="t"))
    folder = SimpleNamespace(code_task=known)
    words = InWords(SimpleNamespace(folder=folder, messages=Talks.messages))
    assert words.step("<think>\nHm.\n</think>\n\n```python\nx = '<think>'\n```").observation == (
        "```python\nx = '<think>'\n```"
    )
    task = make_task(ToolboxConfig(), "train", 3)
    assert ToolboxEpisode(task).step(f"<think>ok</think>{next_call(ToolboxEpisode(task)).render()}").failed is False


def called(text):
    function = {"name": "read_file", "arguments": '{"path": "a.py"}'}
    return {"role": "assistant", "content": text, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


@pytest.mark.parametrize(
    ("name", "settings", "thought"),
    [
        ("qwen3", {}, "<think>\n\n</think>\n\n"),
        ("qwen3", QUIET, ""),
        ("qwen3.5", {}, "\n</think>\n\n"),
        ("qwen3.5", QUIET, ""),
        ("qwen2.5", {}, ""),
    ],
)
def test_stored_turns_with_and_without_calls_begin_alike(name, settings, thought):
    tokens = ChatTokens(template_tokenizer(name), chat_template_kwargs=settings)
    contexts = Contexts(Policy(name, None, tokens), [], 4096)
    text, call = (tokens.text(contexts.turn(each)) for each in ({"role": "assistant", "content": "A."}, called("")))
    assert text == f"{thought}A."
    assert call.startswith(f"{thought}<tool_call>\n")


def test_a_stored_turn_that_a_template_refuses_can_be_left_out():
    """Llama's template takes one call a turn."""
    contexts = Contexts(Policy("llama", None, ChatTokens(template_tokenizer("llama3.2"))), [], 4096)
    twice = called("") | {"tool_calls": called("")["tool_calls"] * 2}
    with pytest.raises(ValueError, match="single tool-calls at once"):
        contexts.turn(twice)
    assert contexts.before("s", [*Talks.messages, called("")], ()) is not None
    assert contexts.before("s", [*Talks.messages, twice], ()) is None


@pytest.mark.parametrize("name", ["phi3.5", "cohere2", "gemma4", "deepseek-r1-distill"])
def test_what_the_environment_answers_is_read_where_a_template_drops_tools(name):
    tokens = ChatTokens(template_tokenizer(name))
    for answer in ("3", "error: no file app.py", 'two\nlines "and quotes"'):
        assert answer in tokens.tokenizer.decode(tokens.after_turn(answer))


def test_an_answer_that_the_template_leaves_out_stops_the_run():
    tokenizer = template_tokenizer("smollm2")
    deaf = tokenizer.chat_template.replace("message['content']", "(message['content'] if loop.index < 3 else 'a')")
    with pytest.raises(UsageError, match="it leaves out what the environment answered"):
        ChatTokens(tokenizer, deaf)
    shy = tokenizer.chat_template.replace("message['content']", "message['content'].replace('secret', '')")
    tokens = ChatTokens(tokenizer, shy)
    assert tokens.after_turn("open")
    with pytest.raises(UsageError, match="it leaves out what the environment answered"):
        tokens.after_turn("the secret is 5")


def test_a_stored_state_without_its_latest_answer_is_refused():
    tokenizer = template_tokenizer("smollm2")
    shy = tokenizer.chat_template.replace("message['content']", "message['content'].replace('secret', '')")
    contexts = Contexts(Policy("shy", None, ChatTokens(tokenizer, shy)), [], 4096)
    said = {"role": "assistant", "content": "A."}
    secret, plain = ({"role": "tool", "content": content} for content in ("the secret is 5", "five"))
    assert contexts.before("s", [*Talks.messages, said, secret], ()) is None
    assert contexts.before("s", [*Talks.messages, said, secret, said, plain], ()) is not None


def test_a_template_that_raises_is_named_with_its_reason():
    with pytest.raises(UsageError, match="gemma2 cannot be used here: TemplateError: System role not supported"):
        ChatTokens(template_tokenizer("gemma2"))


def test_a_setting_that_the_template_does_not_know_is_refused():
    with pytest.raises(UsageError, match="the chat template of qwen3-coder knows no enable_thinking"):
        ChatTokens(template_tokenizer("qwen3-coder"), chat_template_kwargs=QUIET)


def test_template_settings_tell_token_rows_apart_only_where_there_are_some():
    tokenizer = template_tokenizer("qwen3")
    plain, empty, quiet = (
        Policy("p", None, ChatTokens(tokenizer, chat_template_kwargs=settings)).tokenizer_fingerprint
        for settings in (None, {}, QUIET)
    )
    assert plain == empty != quiet


def test_template_settings_belong_to_a_run_and_leave_older_configs_alone():
    """The hash is that of a run from before there were such settings."""
    assert "chat_template_kwargs" not in Config().model_dump(mode="json")["model"]
    quiet = parse_config({"model": {"name": "Qwen/Qwen3-8B", "chat_template_kwargs": QUIET}}, "x")
    assert quiet.model == ModelConfig(name="Qwen/Qwen3-8B", chat_template_kwargs=QUIET)
    assert quiet.hash != parse_config({"model": {"name": "Qwen/Qwen3-8B"}}, "x").hash
    assert parse_config(quiet.model_dump(mode="json"), "x").hash == quiet.hash


def test_template_settings_reach_trl(make_model, tmp_path):
    """One step: under the settings every error turn of the rollouts gets its hint."""
    from trl import GRPOConfig

    from composer_replication.training import ComposerReplicationTrainer
    from composer_replication.training.backends.trl.arguments import grpo_config
    from composer_replication.training.backends.trl.rollouts import EnvironmentRollouts
    from composer_replication.training.train import prompts_of, training_tasks

    config = parse_config(
        {
            "model": {"chat_template_kwargs": QUIET},
            "training": {"steps": 1, "prompts_per_step": 1, "group_size": 2, "max_turn_tokens": 4},
        },
        "x",
    )
    assert grpo_config(config, tmp_path).chat_template_kwargs == QUIET
    assert grpo_config(Config(), tmp_path).chat_template_kwargs is None
    environment, tokenizer = open_toolbox(config), template_tokenizer("qwen3")
    tokens, tasks = ChatTokens(tokenizer, chat_template_kwargs=QUIET), training_tasks(environment, config)
    policy = Policy("small", make_model(len(tokenizer)), tokens)
    trainer = ComposerReplicationTrainer(
        model=policy.model,
        processing_class=tokenizer,
        args=GRPOConfig(
            output_dir=str(tmp_path), max_steps=1, num_generations=2, per_device_train_batch_size=2, use_cpu=True,
            bf16=False, report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True,
            chat_template_kwargs=QUIET,
        ),
        reward_funcs=lambda completions, **columns: [0.0] * len(completions),
        train_dataset=prompts_of(tasks),
        rollout_func=EnvironmentRollouts(policy, environment, tasks, config.training, seed=0),
        hinter=TraceHinter(),
    )  # fmt: skip
    trainer.train()
    assert tokenizer.decode(header_ids(trainer._chat_tokens)) == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    logged = trainer.state.log_history[0]
    assert logged["sdpo/sites"] == 2
    assert logged["sdpo/divergence"] > 0
    assert not [name for name in logged if name.startswith("sdpo/dropped")]
