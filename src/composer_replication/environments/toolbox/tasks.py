"""Seeded toolbox tasks and their exact splits.

A task is a request for one to three dependent calls over a small world, with five to seven listed tools under
per-episode names. `make_task(config, split, index)` always gives the same task.

Splits never overlap: a tool name, a composition (sequence of tools) and a whole prompt each hash to one side.
`heldout` holds unseen prompts, `renames` also unseen names for every tool the task needs, `compositions` unseen
sequences of two or three tools. The other names and compositions are those of `train`.

With a leak a task is what it is without one, plus the listings and the file that the leak needs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from composer_replication.config import ToolboxConfig
from composer_replication.records import JsonObject, Message, canonical_json

from .leak import LEAK_FILE, LEAK_NAMES, LEAK_TOOL, READ_TOOL, leaked_text
from .tools import BY_NAME, TOOLS, Kind, Tool, Value, World

Split = Literal["train", "heldout", "renames", "compositions"]
SPLITS: tuple[Split, ...] = get_args(Split)
Composition = tuple[str, ...]

PATHS = tuple(
    "app.py main.py test.py setup.cfg notes.md todo.md readme.md data.csv log.txt api.py core.py util.py "
    "cli.py index.md plan.md draft.txt list.csv model.py view.py build.cfg lint.cfg story.txt rules.md".split()
)
KEYS = tuple(
    "retries timeout workers port depth width height limit offset budget epochs steps batch rate seed level "
    "quota delay size rounds volume weight score margin".split()
)
WORDS = tuple(
    "alpha bravo cedar delta ember frost grape hazel ivory jade karma lemon maple noble ocean pearl quartz "
    "river stone tulip umber vivid willow xenon yarrow zebra".split()
)
REFERENCE = "it"
VAGUE = "something"
"""Stands in a request for a value that it leaves out."""
HELDOUT_NAMES_PER_VERB = 2
AGENT = "toolbox"
INSTRUCTION = "one json call per turn, then done."


@dataclass(frozen=True)
class Step:
    """One planned call of a base `tool`; `reference` is the one of `arguments` that the step before fills."""

    tool: str
    arguments: Mapping[str, Value]
    reference: str | None = None


@dataclass(frozen=True)
class Listing:
    """A base `tool` as this episode shows it: `name` here, and `types`, the JSON type of each parameter."""

    tool: str
    name: str
    types: Mapping[str, Literal["int", "str"]]

    @property
    def schema(self) -> JsonObject:
        """The tool as an OpenAI function schema."""
        properties = {name: {"type": "integer" if kind == "int" else "string"} for name, kind in self.types.items()}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        return {"type": "function", "function": {"name": self.name, "parameters": parameters}}

    def render(self) -> str:
        return f"{self.name}({','.join(f'{param}:{kind}' for param, kind in self.types.items())})"

    def arguments_of(self, step: Step) -> dict[str, Value]:
        """A planned call's arguments in the types that this listing asks for."""
        return {param: str(value) if self.types[param] == "str" else value for param, value in step.arguments.items()}


@dataclass(frozen=True)
class ToolboxTask:
    """A `request`, the tools that are listed, the `plan` that solves it, and the world at `start` and as its `goal`."""

    task_id: str
    split: Split
    request: str
    listings: tuple[Listing, ...]
    plan: tuple[Step, ...]
    start: World
    goal: World

    @property
    def composition(self) -> Composition:
        return tuple(step.tool for step in self.plan)

    @property
    def is_vague(self) -> bool:
        """Whether the request leaves a value out, so that only luck or a leak can reach the goal."""
        return VAGUE in self.request.split()

    @property
    def labels(self) -> Mapping[str, str]:
        """Results are told apart by split alone."""
        return {}

    @property
    def messages(self) -> list[Message]:
        listing = "\n".join(entry.render() for entry in self.listings)
        return [
            {"role": "system", "content": f"{INSTRUCTION}\n{listing}"},
            {"role": "user", "content": self.request},
        ]

    @property
    def tool_schemas(self) -> tuple[JsonObject, ...]:
        return tuple(entry.schema for entry in self.listings)

    def listing_of(self, tool: str) -> Listing:
        return next(entry for entry in self.listings if entry.tool == tool)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def _bucket(text: str) -> int:
    return _digest(text) % 4


def other_names(tool: Tool, verbs: Sequence[str], heldout: bool) -> list[str]:
    """Names besides the base name that keep to `verbs`; for each verb two are kept from training, by hash."""
    names: list[str] = []
    for verb in verbs:
        forms = sorted((n for n in tool.names if n.startswith(f"{verb}_") and n != tool.name), key=_digest)
        names += forms[:HELDOUT_NAMES_PER_VERB] if heldout else forms[HELDOUT_NAMES_PER_VERB:]
    return names


def compositions(calls: int, heldout: bool) -> list[Composition]:
    """All sequences of `calls` tools in which each but the last feeds the next, on one side of the split."""
    return [c for c in _COMPOSITIONS[calls] if (calls > 1 and _bucket(f"composition:{c}") == 0) == heldout]


def make_task(config: ToolboxConfig, split: Split, index: int) -> ToolboxTask:
    """The task of this number: the same on every machine."""
    rng = random.Random(f"{split}:{index}")
    while True:
        task = _draw(config, split, rng, f"toolbox/{split}/{index}")
        seen_prompt = _bucket(f"prompt:{task.messages}") != 0
        if task.goal != task.start and seen_prompt == (split == "train"):
            return task if config.leak == "none" else _with_leak(config, task)


def task_by_id(config: ToolboxConfig, task_id: str) -> ToolboxTask:
    """The task that this id names."""
    kind, split, index = task_id.split("/")
    if kind != "toolbox" or split not in SPLITS:
        raise ValueError(f"{task_id} is not a toolbox task")
    return make_task(config, split, int(index))


def task_stream(config: ToolboxConfig, split: Split, start: int = 0) -> Iterator[ToolboxTask]:
    """Endless tasks with distinct prompts, so that a prompt names its task."""
    prompts: set[str] = set()
    for index in itertools.count(start):
        task = make_task(config, split, index)
        prompt = str(task.messages)
        if prompt not in prompts:
            prompts.add(prompt)
            yield task


def _feeds(returns: str | None, tool: Tool) -> list[str]:
    """Parameters of `tool` that can take the previous result; an action on numbers takes it first."""
    if returns == "int":
        return [p for p, kind in tool.params.items() if kind == "int"][:1]
    if returns == "word":
        return [p for p, kind in tool.params.items() if kind == "word"][-1:]
    return []


def _enumerate() -> dict[int, list[Composition]]:
    single = [(tool.name,) for tool in TOOLS if tool.returns is None]
    producers = [tool for tool in TOOLS if tool.returns]
    chains: dict[int, list[Composition]] = {1: single, 2: [], 3: []}
    for producer in producers:
        for tool in TOOLS:
            if not _feeds(producer.returns, tool):
                continue
            if tool.returns is None:
                chains[2].append((producer.name, tool.name))
                continue
            for last in TOOLS:
                if last.returns is None and _feeds(tool.returns, last):
                    chains[3].append((producer.name, tool.name, last.name))
    return chains


_COMPOSITIONS = _enumerate()


def _draw(config: ToolboxConfig, split: Split, rng: random.Random, task_id: str) -> ToolboxTask:
    start = _draw_world(rng)
    weights = config.call_mix if split != "compositions" else (0.0, *config.call_mix[1:])
    if not any(weights):
        weights = (0.0, 1.0, 0.0)
    calls = rng.choices((1, 2, 3), weights)[0]
    composition = rng.choice(compositions(calls, heldout=split == "compositions"))
    # A generator of its own: all but the wording stays as it is without vague requests.
    vague = bool(config.vague_rate) and random.Random(f"vague:{task_id}:{start}").random() < config.vague_rate
    plan, phrases, goal = _plan(composition, start, rng, vague)
    return ToolboxTask(
        task_id=task_id,
        split=split,
        request=" then ".join(phrases),
        listings=_list_tools(config, split, composition, rng),
        plan=tuple(plan),
        start=start,
        goal=goal,
    )


def _draw_world(rng: random.Random) -> World:
    files = {path: " ".join(rng.sample(WORDS, rng.randint(1, 3))) for path in rng.sample(PATHS, 4)}
    return World(files, {key: rng.randint(2, 99) for key in rng.sample(KEYS, 4)})


def _plan(
    composition: Composition, start: World, rng: random.Random, vague: bool
) -> tuple[list[Step], list[str], World]:
    world, result = start.copy(), None
    steps: list[Step] = []
    phrases: list[str] = []
    for position, name in enumerate(composition):
        tool = BY_NAME[name]
        previous = BY_NAME[composition[position - 1]].returns if position else None
        reference = next(iter(_feeds(previous, tool)), None)
        arguments: dict[str, Value] = {}
        for param, kind in tool.params.items():
            fed = param == reference and result is not None
            arguments[param] = result if fed else _draw_value(kind, world, arguments, rng)  # type: ignore[assignment]
        wording = [REFERENCE if param == reference else str(value) for param, value in arguments.items()]
        if vague and position == len(composition) - 1:
            wording[max(place for place, param in enumerate(arguments) if param != reference)] = VAGUE
        phrases.append(rng.choice(tool.phrases).format(*wording))
        steps.append(Step(name, arguments, reference))
        result = tool.run(world, arguments)
    return steps, phrases, world


def _draw_value(kind: Kind, world: World, chosen: Mapping[str, Value], rng: random.Random) -> Value:
    if kind == "int":
        return rng.randint(2, 99)
    if kind == "word":
        text = world.files.get(str(chosen.get("path")), "") if "old" not in chosen else ""
        return rng.choice(text.split() or list(WORDS))
    pools: dict[Kind, Sequence[str]] = {
        "path": list(world.files),
        "new_path": [path for path in PATHS if path not in world.files],
        "key": list(world.keys),
        "new_key": [key for key in KEYS if key not in world.keys],
    }
    return rng.choice([value for value in pools[kind] if value not in chosen.values()])


def _list_tools(
    config: ToolboxConfig, split: Split, composition: Composition, rng: random.Random
) -> tuple[Listing, ...]:
    needed = list(dict.fromkeys(composition))
    others = [tool.name for tool in TOOLS if tool.name not in needed]
    size = max(len(needed), rng.randint(*config.listed))
    shown = needed + rng.sample(others, size - len(needed))
    rng.shuffle(shown)
    return tuple(_list_tool(config, BY_NAME[name], split == "renames" and name in needed, rng) for name in shown)


def _list_tool(config: ToolboxConfig, tool: Tool, unseen: bool, rng: random.Random) -> Listing:
    name = tool.name
    if unseen or rng.random() < config.rename_rate:
        verbs = tool.verbs if config.rename_verbs else tool.verbs[:1]
        name = rng.choice(other_names(tool, verbs, heldout=unseen))
    types: dict[str, Literal["int", "str"]] = {}
    for param, kind in tool.params.items():
        types[param] = "int" if kind == "int" and rng.random() >= config.quoted_int_rate else "str"
    return Listing(tool.name, name, types)


def _with_leak(config: ToolboxConfig, task: ToolboxTask) -> ToolboxTask:
    """Draws from a generator of its own, so that everything else of the task stays as it is."""
    rng = random.Random(f"leak:{task.task_id}")
    listings = list(task.listings)
    added = [Listing(LEAK_TOOL, rng.choice(LEAK_NAMES), {})]
    if all(entry.tool != READ_TOOL for entry in listings):
        added.append(_list_tool(config, BY_NAME[READ_TOOL], False, rng))
    for entry in added:
        listings.insert(rng.randint(0, len(listings)), entry)
    # Only the last call of a plan changes the world; those before it look values up.
    acting = task.plan[-1]
    listing = task.listing_of(acting.tool)
    call = {"name": listing.name, "arguments": listing.arguments_of(acting)}
    text = leaked_text(task.task_id, json.dumps(call, separators=(",", ":"))) if config.leak == "open" else ""
    start, goal = task.start.copy(), task.goal.copy()
    start.files[LEAK_FILE] = goal.files[LEAK_FILE] = text
    return replace(task, listings=tuple(listings), start=start, goal=goal)


def prompt_key(messages: Sequence[Message]) -> str:
    """What a task is recognised by in any conversation about it."""
    return canonical_json([message["content"] for message in messages[:2]])
