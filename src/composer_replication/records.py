"""The nouns of the system. Every stage reads some of these records and writes others; files carry them in between.

    Trace ──▶ ErrorSite ──▶ Hint ─────────────────────────▶ training (channel 2)
      └─────────────▶ TeacherReply ──▶ PreferencePair ────▶ training (channel 3)

Records are frozen and JSON-safe. An id is the first 16 hex digits of the sha256 over the canonical JSON of the fields
that name the thing, so it is the same on every machine. Two words must not blur: the *actor* is the model that made a
trace (its turn is `student_action`, the origin's name for it); the *policy* is the model in training.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, Required, cast, get_args

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

SCHEMA_VERSION: Literal[1] = 1

ErrorKind = Literal[
    "tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure", "no_action", "exit_code",
    "edit_mismatch", "edit_precondition", "file_not_found", "timeout", "permission", "limit", "hook_block",
    "user_rejection", "interruption", "correction", "silent_failure", "style", "communication", "effort",
]  # fmt: skip
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
Fault = Literal["policy", "user", "harness", "environment"]
Fidelity = Literal["exact", "reconstructed", "partial"]
JsonObject = dict[str, Any]


def canonical_json(value: object) -> str:
    """One spelling for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(value: object) -> str:
    """The sha256 of its canonical JSON, in hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def content_id(*parts: object) -> str:
    """The first 16 hex digits of the hash of `parts`."""
    return digest_of(parts)[:16]


class FunctionCall(TypedDict):
    """Name and arguments of a tool call."""

    name: str
    arguments: str
    """JSON text, as on the OpenAI wire."""


class ToolCall(TypedDict):
    """A call as the OpenAI wire has it."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(TypedDict, total=False):
    """One OpenAI-style chat message. `is_error` marks a failed tool result and stays on this machine."""

    role: Required[Literal["system", "user", "assistant", "tool"]]
    content: Required[str]
    tool_calls: list[ToolCall]
    tool_call_id: str
    is_error: bool


class TraceState(TypedDict):
    """What the actor saw before one turn, and what it did. Built when asked for, never stored."""

    state_id: str
    messages: list[Message]
    student_action: str


class Record(BaseModel):
    """What is frozen and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredRecord(Record):
    """A record that is written to files, with the version of its schema."""

    schema_version: Literal[1] = SCHEMA_VERSION
    """A file of another version is refused."""


class Source(Record):
    """Where a trace came from; `licence` travels with the data."""

    agent: str
    """The harness that wrote the file, or the environment."""
    version: str | None = None
    """Of the agent."""
    file: str | None = None
    """Its name, redacted."""
    licence: str | None = None
    """None: unknown."""
    subagent: bool = False
    """Whether another agent wrote the prompts, not a person."""


CLEARED_RESULT = "[tool result cleared from the context]"


class Segment(Record):
    """A stretch of history. A turn sees what `continues` names, then `preserved`, then `start` up to itself."""

    start: int
    preserved: tuple[int, ...] = ()
    """Indexes of earlier messages that survived a compaction."""
    continues: tuple[int, int] | None = None
    """After a rewind: an earlier segment, and the message before which it was left."""
    cleared: tuple[int, ...] = ()
    """Indexes of tool results that the harness emptied when this segment began."""

    @property
    def goes_on(self) -> bool:
        """Whether nothing left the history here but the text of cleared results."""
        return self.continues is not None and self.continues[1] == self.start


class Turn(Record):
    """`messages[start]` is the assistant message; the rest up to `end` are its tool results."""

    start: int
    """Index in `messages`."""
    end: int
    """Index of the message after its last; the next turn may begin there."""
    segment: int = 0
    """Index in `segments`."""
    thinking: str = ""
    """Visible reasoning: part of the action, never of the history that others see."""
    source_model: str | None = None
    """The model that wrote it."""
    family: str | None = None
    """Of that model, as `family_of` gives it."""
    fidelity: Fidelity = "exact"
    """Whether the file records the turn as the model wrote it."""
    byte_range: tuple[int, int] | None = None
    """Where it stands in the file."""
    abandoned: bool = False
    """Whether the user rewound the session to before this turn."""


class Trace(StoredRecord):
    """One session or rollout. Each message is stored once; `state` slices the history of a turn."""

    trace_id: str
    """The same for the same content, such as `content_id(...)`."""
    source: Source
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    segments: tuple[Segment, ...] = (Segment(start=0),)
    """Leave it out where nothing was compacted or rewound. Default: `(Segment(start=0),)`."""
    tools: tuple[JsonObject, ...] = ()
    """Listed to the actor, as OpenAI lists them."""
    tools_inferred: bool = False
    """True when `tools` was put together from the calls of the trace because the file records none."""
    system_is_ours: bool = False
    """True when `messages[0]` is a prompt of ours because the file records none: the actor saw another one."""
    task_id: str | None = None
    """None for a session without a task."""
    outcome: float | None = None
    """Reward of a rollout, where one is known."""

    def history(self, turn: int) -> list[Message]:
        seen, cleared = seen_before(self.segments, self.turns[turn])
        return [emptied(self.messages[i]) if i in cleared else self.messages[i] for i in seen]

    def state(self, turn: int) -> TraceState:
        at = self.turns[turn]
        return TraceState(
            state_id=self.state_id(turn),
            messages=self.history(turn),
            student_action=render_action(self.messages[at.start], at.thinking),
        )

    def state_id(self, turn: int) -> str:
        return content_id(self.trace_id, turn)

    def states(self) -> Iterator[TraceState]:
        """One for each turn."""
        return (self.state(turn) for turn in range(len(self.turns)))


def turns_of(messages: Sequence[Message], first: int, source_model: str) -> tuple[Turn, ...]:
    """One for each assistant message from `messages[first]` on, with all that follows it up to the next one.

    Args:
        messages: Of the whole rollout; answers of the environment stand behind the turn that they answer.
        first: How many messages the task itself has: assistant messages among them are examples, not turns.
    """
    starts = [place for place in range(first, len(messages)) if messages[place]["role"] == "assistant"]
    spans, family = pairwise([*starts, len(messages)]), family_of(source_model)
    return tuple(Turn(start=start, end=end, source_model=source_model, family=family) for start, end in spans)


def seen_before(segments: Sequence[Segment], turn: Turn) -> tuple[list[int], set[int]]:
    """Indexes of the messages that the actor saw before a turn, and those of them that the harness had emptied."""
    seen: list[int] = []
    cleared: set[int] = set()
    place: tuple[int, int] | None = (turn.segment, turn.start)
    while place:
        segment, end = segments[place[0]], place[1]
        seen = [*segment.preserved, *range(segment.start, end), *seen]
        cleared.update(segment.cleared)
        place = segment.continues
    return seen, cleared


def emptied(message: Message) -> Message:
    """The same result after the harness cleared it to save context."""
    return {**message, "content": CLEARED_RESULT}


class ErrorSite(StoredRecord):
    """A turn where something went wrong, and whose fault it was."""

    site_id: str
    """Its own."""
    trace_id: str
    """Of its trace."""
    turn: int
    """Its place in `trace.turns`, from 0."""
    state_id: str
    """As `Trace.state_id` makes it."""
    error_kind: ErrorKind
    secondary_kind: ErrorKind | None = None
    """Of a further error in the same turn."""
    fault: Fault = "policy"
    """Hints are written for `policy`, and for `user` where the user said what was wrong."""
    error_message: str
    """What the actor read."""
    call_id: str | None = None
    """The tool call that failed; None where the user spoke about the whole turn. It is a later turn's where the turn is
    an edit that broke a command."""
    tool_name: str | None = None
    """The tool that was called, where one was."""
    tool_schema: JsonObject | None = None
    """Its schema, where it is known."""
    available_tools: tuple[str, ...] = ()
    """Names of the tools that were listed."""
    span: tuple[int, int] | None = None
    """Characters of `student_action` that are wrong, where they are known."""
    detector: str
    """That found it."""
    confidence: float = 1.0
    """Of the detector, from 0 to 1."""


class Hint(StoredRecord):
    """The text spliced before an error turn. Leak level: L0 the error only, L1 facts in context, L2 the answer."""

    hint_id: str
    """Its own."""
    site_id: str
    """Of the error."""
    text: str
    sham_text: str
    """A reminder for another kind of error, without facts: the control for "any text helps"."""
    layer: Literal["template", "raw_error", "judge", "sibling"]
    """What worded it."""
    leak_level: Literal["L0", "L1", "L2"]
    """How much it gives away."""
    tokens: int
    """Words and punctuation marks."""


class Usage(Record):
    """Tokens of one paid call."""

    prompt_tokens: int = 0
    """Read."""
    completion_tokens: int = 0
    """Written."""


class TeacherReply(StoredRecord):
    """One answer of an external model at a state. `action` is the canonical call, None where there is none."""

    key: str
    """sha256 of the canonical request: the name of a paid call."""
    state_id: str
    """As `Trace.state_id` makes it."""
    trace_id: str
    """Of its trace."""
    turn: int
    """Its place in `trace.turns`, from 0."""
    teacher: str
    """Name of the model that was asked."""
    served_model: str | None
    """Name that the answer carries."""
    family: str
    """Of the teacher: each has one vote."""
    action: str | None
    raw: str
    """The answer as it came."""
    finish_reason: str | None
    """As the server names it."""
    usage: Usage
    cost_micros: int
    """Micro-dollars."""
    latency_s: float
    """Seconds until the answer."""
    outcome: Literal["answered", "no_action", "truncated", "mismatched", "failed"]
    """Only `answered` votes; with `pairs.free_text` also `no_action`."""
    simulated: bool
    """Whether the teacher is a noisy oracle, not a model."""


class Agreement(Record):
    """How the families voted: how alike, how many, and who."""

    tier: Literal["execution", "exact", "critical", "text", "single"]
    """`single`: one family's word against samples of the policy, and nobody's agreement."""
    votes: int
    """Families that agree."""
    n: int
    families: tuple[str, ...]
    """Their names."""


class PreferencePair(StoredRecord):
    """Chosen over rejected at one state, as messages with tool calls kept. What came before is in the trace."""

    pair_id: str
    """Its own."""
    state_id: str
    """As `Trace.state_id` makes it."""
    trace_id: str
    """Of its trace."""
    turn: int
    """Its place in `trace.turns`, from 0."""
    chosen: Message
    """The better turn."""
    rejected: Message
    """The worse one."""
    tools: tuple[JsonObject, ...] = ()
    """Listed at the state, as OpenAI lists them."""
    agreement: Agreement
    kind: str | None = None
    """What went wrong at the state, where it is known: precision is measured per kind."""
    precision: float | None = None
    """Chance that the chosen side is right, where it was measured; 1 − precision is the label smoothing."""
    chosen_from: Literal["teachers", "policy", "actor"] = "teachers"
    """Who wrote the chosen turn."""
    rejected_from: Literal["actor", "policy", "teacher"] = "actor"
    """Who wrote the rejected one."""
    off_policy: bool
    """True when the rejected side is another actor's turn, not a sample of the policy in training."""
    provenance: tuple[str, ...] = Field(description="keys of the replies that voted for the chosen action")
    """Keys of the replies that voted for the chosen action."""
    simulated: bool
    """Whether the teachers were noisy oracles, not models."""


class Task(StoredRecord):
    """A verifiable task of an environment."""

    task_id: str
    kind: str
    """Of environment, such as `code`."""
    statement: str
    """What the agent reads."""
    visible_hash: str
    """Of the tree that the agent sees."""
    hidden_hash: str
    """Of what only the grader sees."""
    difficulty: JsonObject = {}
    """Measures by name."""
    certificate: JsonObject = {}
    """How it was shown to be solvable."""


class Finding(StoredRecord):
    """Evidence of a reward hack at one step of a trace."""

    finding_id: str
    """Its own."""
    trace_id: str
    """Of its trace."""
    step: int
    """Number of the tool call, from 0; −1 is the attempt as a whole."""
    hack_class: str
    """Name of the class."""
    rule: str
    """Name of the rule that found it."""
    evidence: Literal["hard", "soft"]
    """`hard` proves it; `soft` suggests it."""
    layer: str
    """What was looked at."""
    lines: tuple[str, ...]
    """The offending text."""


def canonical_call(name: str, arguments: object) -> str:
    """One spelling per tool call: the order and spacing of `arguments` do not matter, their values do."""
    return canonical_json({"name": name, "arguments": arguments})


def json_object(text: str) -> JsonObject | None:
    """The object that a text holds; None for any other text, also where Python would read NaN or Infinity."""
    try:
        value: Any = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def arguments_written(call: ToolCall) -> Any:
    """What the arguments of a call say, or their text where that is no JSON."""
    text = call["function"]["arguments"]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def canonical_tool_call(call: ToolCall) -> str:
    """One spelling for equal calls, whatever the order of their arguments."""
    return canonical_call(call["function"]["name"], arguments_written(call))


def render_action(message: Message, thinking: str = "") -> str:
    """A turn as one string: thinking, text, then each tool call in its canonical spelling."""
    parts = [f"<thinking>{thinking}</thinking>" if thinking else "", message["content"]]
    parts += [f"<tool_call>{canonical_tool_call(call)}</tool_call>" for call in message.get("tool_calls", [])]
    return "\n".join(part for part in parts if part)


FAMILIES = (
    "claude", "gpt", "gemini", "qwen", "deepseek", "glm", "kimi", "mistral", "llama", "minimax", "grok", "smollm",
)  # fmt: skip

VENDORS = {
    "openai": "gpt",
    "anthropic": "claude",
    "google": "gemini",
    "moonshotai": "kimi",
    "z-ai": "glm",
    "x-ai": "grok",
}

MEMBERS = {
    "codestral": "mistral", "devstral": "mistral", "magistral": "mistral", "ministral": "mistral",
    "mixtral": "mistral", "pixtral": "mistral", "voxtral": "mistral", "gemma": "gemini", "qwq": "qwen",
    "chatgpt": "gpt", "codex": "gpt",
}  # fmt: skip
"""Models whose name is not their family's."""
_OF_OPENAI = re.compile(r"o[1-9](-|$)")
_FAMILY = re.compile(rf"(?<![a-z])({'|'.join((*FAMILIES, *MEMBERS))})")


def family_of(model: str | None) -> str | None:
    """The model family named in a model id, or the vendor part, or None when nothing is known."""
    if not model or model.startswith("<"):
        return None
    parts = [part for part in model.lower().split("/") if part not in ("", ".", "..")] or [model]
    named = _FAMILY.search(model.lower())
    is_path = model.startswith((".", "/", "~"))
    own = MEMBERS.get(named[1], named[1]) if named else parts[-1 if is_path else 0]
    return VENDORS.get(parts[0]) or ("gpt" if _OF_OPENAI.match(parts[0]) else own)
