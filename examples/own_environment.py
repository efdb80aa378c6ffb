"""An environment, a dataset, a reward and a hint of your own in the trainer of this package, a `trl.GRPOTrainer`.

The policy reads of an animal and says what it says. It begins with random weights, so the script needs no download and
no GPU. `python examples/own_environment.py` takes less than a minute on two idle cores.
"""

# %% [markdown]
# # An environment of your own
#
# A task is a sentence such as `Ann has a dog`; the right answer is `woof`. Everything about two of the eight people is
# held out and never trained on.

# %%
import random
import tempfile

import torch
from trl import GRPOConfig

from composer_replication.config import TrainingConfig
from composer_replication.environments.protocol import Environment, EpisodeLimits, PlainAnswer
from composer_replication.records import Source, Trace, content_id, turns_of
from composer_replication.training import (
    ComposerReplicationTrainer,
    EnvironmentRollouts,
    HintedTurn,
    load_policy,
    prompts_of,
    roll_out,
)

SOUNDS = {"dog": "woof", "cat": "meow", "cow": "moo", "duck": "quack"}
PEOPLE = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal"]
HELD_OUT = ["Gus", "Hal"]


class Animal:
    """One task. Its id decides for ever on which side of the split it is."""

    def __init__(self, person, animal):
        self.task_id, self.right = f"animals/{person}/{animal}", SOUNDS[animal]
        self.messages = [{"role": "user", "content": f"{person} has a {animal}"}]
        self.labels = {"animal": animal}


class Answering:
    """One attempt: a single turn."""

    tools, evidence, said, finished = (), None, "", False

    def __init__(self, task):
        self.task, self.messages = task, task.messages

    @property
    def reward(self):
        return float(self.said == self.task.right)

    def step(self, turn):
        self.said, self.finished = turn.strip(), True
        return PlainAnswer("right" if self.reward else "wrong", failed=not self.reward)

    def trace(self, source_model, sample):
        told = {"role": "tool", "content": "right" if self.reward else "wrong", "is_error": not self.reward}
        messages = [*self.messages, {"role": "assistant", "content": self.said}, told]
        return Trace(
            trace_id=content_id(self.task.task_id, source_model, sample, self.said),
            source=Source(agent="animals"),
            task_id=self.task.task_id,
            messages=messages,
            turns=turns_of(messages, len(self.messages), source_model),
            outcome=self.reward,
        )

    def close(self):
        pass


class Animals(Environment):
    name, limits = "animals", EpisodeLimits(turns=1, observation_tokens=4)

    def tasks(self, split, use="training"):
        people = [person for person in PEOPLE if (person in HELD_OUT) == (split == "heldout")]
        return [Animal(person, animal) for person in people for animal in SOUNDS]

    def task(self, task_id):
        return Animal(*task_id.split("/")[1:])

    def start(self, task):
        return Answering(task)

    def vocabulary(self):
        """Only the built-in tiny model asks for it. Leave it out for a model of your own."""
        return [" ".join([*PEOPLE, *SOUNDS, *SOUNDS.values()]), " has a animal makes this sound right wrong"]


# %% [markdown]
# # Dataset, reward and hints
#
# The dataset is TRL's: one prompt per row. So is a reward function; it gets what the environment returned as columns.
# A hinter looks at the traces of a step and names the turns that channel 2 should learn from, each with a hint.


# %%
def correct(episode_reward, **columns):
    return episode_reward


def hinter(traces):
    return [[HintedTurn(0, "wrong", "animal makes this sound")] if not trace.outcome else [] for trace in traces]


environment = Animals()
tasks = environment.tasks("train")
dataset = prompts_of(tasks * 64)

# %% [markdown]
# # The policy
#
# `load_policy` takes `tiny`, a folder or a hub id. Random weights say nothing readable, and what is never said is never
# rewarded. So a few supervised steps teach the form first: a sound, drawn at random. A pretrained model needs none.

# %%
policy = load_policy("tiny", environment, seed=0)
draw, optimizer = random.Random(0), torch.optim.AdamW(policy.model.parameters(), lr=2e-3)
for _ in range(30):
    chats = [[*task.messages, {"role": "assistant", "content": draw.choice([*SOUNDS.values()])}] for task in tasks]
    ids = policy.tokenizer.apply_chat_template(chats, return_tensors="pt", return_dict=True)["input_ids"]
    policy.model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def held_out_success():
    """Over 256 sampled answers."""
    unseen = environment.tasks("heldout") * 32
    drawn = torch.Generator().manual_seed(0)
    model, tokens = policy.model.eval(), policy.tokens
    rollouts = roll_out(model, tokens, environment, unseen, max_turn_tokens=3, temperature=1, generator=drawn)
    return sum(rollout.reward for rollout in rollouts) / len(rollouts)


before = held_out_success()

# %% [markdown]
# # Training
#
# With `alpha_sdpo=0` this is plain GRPO, bit for bit. The weight here is the recipe's. A model that was trained for
# seconds cannot follow a hint, so do not expect channel 2 to help in this toy.

# %%
trainer = ComposerReplicationTrainer(
    model=policy.model,
    processing_class=policy.tokenizer,
    train_dataset=dataset,
    rollout_func=EnvironmentRollouts(policy, environment, tasks, TrainingConfig(max_turn_tokens=3), seed=0),
    reward_funcs=[correct],
    hinter=hinter,
    alpha_sdpo=0.1,
    args=GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        max_steps=70,
        per_device_train_batch_size=64,
        num_generations=8,
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    ),
)
trainer.train()

# %%
after = held_out_success()
print(f"held-out success: {before:.2f} before, {after:.2f} after")
