"""Real chat templates, stored verbatim: what is spliced equals what the template renders, or the template is refused.

The expected outcome of each is its row of the table in docs/models.md.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from composer_replication.environments.calls import Call, marked
from composer_replication.training.models.chat_template import TemplateRefusal
from composer_replication.training.models.tokens import ChatTokens
from tests.golden.templates.tokenizers import FOLDER, NAMES, source_of, template_tokenizer
from tests.headers import header_ids

DOCS = Path(__file__).parents[2] / "docs" / "models.md"
ASKED = [{"role": "system", "content": "You call tools."}, {"role": "user", "content": "Read app.py, please."}]
TURNS = (("Let me look.", 'def f():\n    return "x"'), ("And again.", "error: no file app.py"))
HINT = "Reminder: the file is called main.py."
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": SCHEMA}}]
CALL = Call("read_file", {"path": "app.py", "lines": 3})
THOUGHT = "<think>\nWhere is it?\n</think>\n\n"
THOUGHTS = re.compile(r"<think>.*?</think>\s*", re.DOTALL)


def table() -> dict[tuple[str, str], tuple[str, ...]]:
    rows = [line.strip("|").split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip().strip("`") for cell in row] for row in rows]
    return {(row[0], row[1]): tuple(row[2:]) for row in cells if row[0] in NAMES}


def working() -> list[str]:
    return [name for (name, settings), cells in table().items() if not settings and cells[0] != "refused"]


def settings_of(text: str) -> dict[str, bool]:
    return {name: value == "true" for name, value in re.findall(r"(\w+) = (\w+)", text)}


class Matrix:
    """One template under one choice of settings."""

    def __init__(self, name, settings):
        self.tokens = ChatTokens(template_tokenizer(name), chat_template_kwargs=settings)
        self.settings = settings
        self.role = self.tokens.observation_role
        header = self.tokens.tokenizer.decode(header_ids(self.tokens))
        self.may_think, self.opens_thought = (
            "</think>" not in header,
            header.rfind("<think>") > header.rfind("</think>"),
        )

    def render(self, messages, opened=True, tools=None):
        return self.tokens.tokenizer.apply_chat_template(
            messages, tools=tools, tokenize=True, return_dict=False, add_generation_prompt=opened, **self.settings
        )

    def same_but_for_thoughts(self, spliced, messages):
        """Whether they are equal throughout; fails where they differ in more than earlier thoughts."""
        rendered = self.render(messages)
        decode = self.tokens.tokenizer.decode
        assert THOUGHTS.sub("", decode(spliced)) == THOUGHTS.sub("", decode(rendered))
        return spliced == rendered

    def played(self, cut=False, thought=""):
        messages, ids, same = list(ASKED), self.tokens.prompt(ASKED), []
        for said, answer in TURNS:
            turn = self.thinking(thought, said) if thought else self.tokens.turn(said)
            turn, said = turn[:-1] if cut else turn, thought + said
            ids = [*ids, *turn, *self.tokens.closing(turn), *self.tokens.after_turn(answer)]
            messages += [{"role": "assistant", "content": said}, {"role": self.role, "content": answer}]
            same.append(self.same_but_for_thoughts(ids, messages))
        return messages, ids, all(same)

    def thinking(self, thought, said):
        """As it is sampled: behind a header that opens a thought, the turn begins inside it."""
        written = thought.removeprefix("<think>\n") if self.opens_thought else thought
        return [*self.tokens.tokenizer(written + said)["input_ids"], self.tokens.end_of_turn_id]

    def hinted(self, messages):
        if self.tokens.hint_place == "message":
            return [*messages, {"role": "user", "content": HINT}]
        return [*messages[:-1], {**messages[-1], "content": f"{messages[-1]['content']}\n\n{HINT}"}]

    def calling(self, calls):
        function = {"name": CALL.name, "arguments": json.dumps(CALL.arguments)}
        made = [{"id": f"call_{number}", "type": "function", "function": function} for number in range(calls)]
        answers = [{"role": "tool", "content": f"answer {call['id']}", "tool_call_id": call["id"]} for call in made]
        return {"role": "assistant", "content": "", "tool_calls": made}, answers

    def calls(self):
        """How calls are written; everything that is written is read again."""
        prompt = self.tokens.prompt(ASKED)
        if not self.tokens.call_form:
            assert self.tokens.said(prompt, self.tokens.turn(marked(CALL))) == marked(CALL)
            return "as text"
        said, answers = self.calling(1)
        turn = self.tokens.turn_of(said)
        assert self.tokens.said(prompt, turn, TOOLS) == marked(CALL)
        form = self.tokens.call_form
        native = [form.native(message) for message in [*ASKED, said, *answers]]
        assert self.tokens.conversation([*ASKED, said, *answers], TOOLS) == self.render(native, tools=TOOLS)
        closed = self.tokens.tokenizer.decode(self.render(native[:3], opened=False))
        assert THOUGHTS.sub("", self.tokens.tokenizer.decode([*prompt, *turn])) in THOUGHTS.sub("", closed)
        said, answers = self.calling(2)
        try:
            assert self.tokens.turn_of(said).count(self.tokens.end_of_turn_id) == 1
            self.tokens.conversation([*ASKED, said, *answers], TOOLS)
        except TemplateRefusal:
            return "native, one a turn"
        return "native"


def outcome(name, settings):
    try:
        matrix = Matrix(name, settings)
    except TemplateRefusal as refused:
        return ("refused", str(refused).split(": ", 1)[1].split("; next")[0])
    messages, ids, same = matrix.played()
    assert matrix.played(cut=True) == (messages, ids, same)
    same = same and (not matrix.may_think or matrix.played(thought=THOUGHT)[2])
    for context, asked in ((matrix.tokens.prompt(ASKED), ASKED), (ids, messages)):
        matrix.same_but_for_thoughts(matrix.tokens.splice_hint(context, HINT), matrix.hinted(asked))
    plain, hinted = matrix.tokens.prompt(ASKED), matrix.tokens.splice_hint(matrix.tokens.prompt(ASKED), HINT)
    assert hinted == matrix.render(matrix.hinted(ASKED))
    assert len(hinted) - len(plain) == matrix.tokens.hint_tokens(HINT)
    return (matrix.role, matrix.tokens.hint_place, matrix.calls(), "same" if same else "thoughts stay")


@pytest.mark.parametrize(
    ("name", "settings"), table(), ids=[f"{name} {settings}".strip() for name, settings in table()]
)
def test_a_template_does_what_the_table_says(name, settings):
    assert outcome(name, settings_of(settings)) == tuple(cell for cell in table()[name, settings] if cell)


def test_every_stored_template_is_in_the_table():
    listed = table()
    assert {name for name, _ in listed} == set(NAMES)
    thinks = {name for name in NAMES if "enable_thinking" in source_of(name)}
    assert thinks == {name for name, settings in listed if settings}
    assert len(working()) >= 12


def test_stored_templates_are_those_of_their_sources():
    told = dict(re.findall(r"`([\w.-]+)\.jinja` .*`([0-9a-f]{64})`", (FOLDER / "SOURCES.md").read_text()))
    assert told == {name: hashlib.sha256((FOLDER / f"{name}.jinja").read_bytes()).hexdigest() for name in NAMES}


@pytest.mark.parametrize("name", working())
def test_thoughts_stay_in_the_context_and_out_of_the_environment(name):
    matrix = Matrix(name, {})
    tokens, prompt = matrix.tokens, matrix.tokens.prompt(ASKED)
    turn = matrix.thinking(THOUGHT, "A it is.")
    assert tokens.said(prompt, turn) == "A it is."
    assert tokens.said(prompt, turn[:8]) == ""
    assert tokens.said(prompt, tokens.turn("A it is.")) == "A it is."
    unopened = [*tokens.tokenizer("A it is.")["input_ids"], tokens.end_of_turn_id]
    assert tokens.said(prompt, unopened) == ("" if matrix.opens_thought else "A it is.")
