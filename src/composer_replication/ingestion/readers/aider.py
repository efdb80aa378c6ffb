"""Aider's chat history: `.aider.chat.history.md`, one session per "# aider chat started at".

Markdown without roles, ids or prompts, so traces are partial: `####` lines are the user's, `>` lines the console's,
the rest is the model's. Both kinds of lines end in two spaces, which tells them from headings and quotes of the model.
SEARCH/REPLACE blocks become calls of `search_replace`, the console's report on them the results. Lost: the system
prompt, the repository map and the files that the model saw, and the output of commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from composer_replication.records import JsonObject, content_id

from ..conversation import Conversation
from ..reading import BYTE_ORDER_MARK, InputFile
from ..session import Session

AGENT = "aider"
HEADER = "# aider chat started at "
LINE_END = "  "
MARK = BYTE_ORDER_MARK.decode()
PROMPT_COMMANDS = ("/ask", "/code", "/architect", "/help")
RESET_COMMANDS = ("/clear", "/reset")
CONFIRMATION = "(Y)es/(N)o"
REFUSED = "The LLM did not conform to the edit format."
FAILED_EDIT = re.compile(r"failed to exactly match lines in (.+)")
OTHERS_APPLIED = re.compile(r"The other \d+ SEARCH/REPLACE blocks? (?:was|were) applied successfully")
APPLIED = re.compile(r"Applied edit to (.+)")
MODEL = re.compile(r"(?:Main model|Model): (\S+) with ")
VERSION = re.compile(r"Aider v(\S+)")
EDIT = re.compile(
    r"^(?:(?P<path>[^\n`]+)\n)?(?P<fence>```|~~~)[^\n]*\n(?:(?P<inner>[^\n<`]+)\n)?"
    r"<{5,9} SEARCH\n(?>(?P<search>.*?)^={5,9}\n)"
    r"(?P<replace>.*?)^>{5,9} REPLACE\n(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
THINKING = re.compile(r"(?:(?<!-)-+\s+)?► \*\*THINKING\*\*\n(.*?)(?<!-)-+\s+► \*\*ANSWER\*\*\n", re.DOTALL)


def recognises(value: Any) -> bool:
    return isinstance(value, str) and value.removeprefix(MARK).lstrip().startswith(HEADER)


class SpokenPart(NamedTuple):
    """Lines of one speaker (`user`, `console` or `model`) or a `header`, with their bytes in the file."""

    speaker: str
    text: str
    start: int
    end: int


def read(file: InputFile) -> Iterator[Session]:
    reader: _Reader | None = None
    for part in _parts(file.text()):
        if part.speaker == "header":
            if reader:
                yield from reader.sessions()
            reader = _Reader(file, part)
        elif reader:
            reader.add(part)
    if reader:
        yield from reader.sessions()


def _parts(text: str) -> Iterator[SpokenPart]:
    speaker, lines, start, end, unfinished = "", list[str](), 0, 0, False
    for line in text.split("\n"):
        before, end = end, end + len(line.encode("utf-8", "replace")) + 1
        line = line.removeprefix(MARK).removesuffix("\r")
        is_line = line.endswith(LINE_END)
        if line.startswith(HEADER):
            kind, shown, unfinished = "header", line.removeprefix(HEADER), False
        elif line.startswith("#### ") and is_line:
            kind, shown, unfinished = "user", line[5:].removesuffix(LINE_END), False
        elif line.startswith("> ") and (is_line or speaker == "console"):
            kind, shown, unfinished = "console", line[2:].removesuffix(LINE_END), not is_line
        elif unfinished or (speaker == "console" and line.strip()):
            # A message of several lines has the sign on its first line and the spaces on its last, or padding before.
            kind, shown, unfinished = "console", line.removesuffix(LINE_END), not is_line
        elif not line.strip() and speaker != "model":
            kind, shown = "", ""
        else:
            kind, shown = "model", line
        if kind != speaker or kind == "header":
            if speaker:
                yield SpokenPart(speaker, "\n".join(lines), start, before)
            speaker, lines, start = kind, [], before
        lines.append(shown)
    if speaker:
        yield SpokenPart(speaker, "\n".join(lines), start, end - 1)


class _Reader:
    def __init__(self, file: InputFile, header: SpokenPart) -> None:
        self._report = file.report
        self._texts: list[str] = [header.text]
        self._conversation = Conversation(file, AGENT, "partial")
        self._model: str | None = None
        self._edits: dict[str, tuple[str, str]] = {}

    def sessions(self) -> Iterator[Session]:
        session = self._conversation.session(content_id(self._texts))
        if session.turns:
            yield session
        else:
            self._report.skipped["session_without_turns"] += 1

    def add(self, part: SpokenPart) -> None:
        self._texts.append(part.text)
        match part.speaker:
            case "user":
                self._add_user(part.text)
            case "console":
                self._add_console(part.text)
            case _:
                self._add_turn(part)

    def _add_user(self, text: str) -> None:
        command, *rest = text.split(maxsplit=1) or [""]
        if command in RESET_COMMANDS:
            self._conversation.restart()
        if command in PROMPT_COMMANDS and rest:
            self._conversation.say(rest[0].strip())
        elif text.startswith("/") or CONFIRMATION in text or text == "<blank>":
            self._report.skipped["command_line"] += 1
        else:
            self._conversation.say(text)

    def _add_console(self, text: str) -> None:
        complaint: list[str] = []
        for line in text.split("\n"):
            if model := MODEL.match(line):
                self._model = model.group(1)
            elif version := VERSION.match(line):
                self._conversation.version = version.group(1)
            elif applied := APPLIED.match(line):
                self._answer([call for call, (path, _) in self._edits.items() if path == applied.group(1)], line)
            elif complaint or line == REFUSED:
                complaint.append(line)
                continue
            self._report.skipped["console_line"] += 1
        if complaint:
            self._add_complaint("\n".join(complaint))

    def _add_complaint(self, text: str) -> None:
        """Aider sends this back to the model. It quotes the edits that failed, or says that none could be used."""
        failed = {path.strip() for path in FAILED_EDIT.findall(text)}
        quoted = [call for call, (path, search) in self._edits.items() if path in failed and search.strip() in text]
        self._answer(quoted if failed else list(self._edits), text, failed=True)
        if not quoted:
            self._conversation.say(text)
        elif OTHERS_APPLIED.search(text):
            self._answer(list(self._edits), text)

    def _answer(self, calls: Sequence[str], text: str, failed: bool = False) -> None:
        for call_id in calls:
            del self._edits[call_id]
            self._conversation.result(call_id, text, failed)

    def _add_turn(self, part: SpokenPart) -> None:
        self._edits.clear()
        turn, _ = self._conversation.turn(None, self._model, part.start, part.end)
        for thinking in THINKING.findall(part.text):
            self._conversation.add_thinking(turn, thinking.strip())
        text = THINKING.sub("", part.text)
        self._conversation.add_text(turn, EDIT.sub("", text).strip())
        for number, edit in enumerate(EDIT.finditer(text)):
            path = (edit["inner"] or edit["path"] or "").strip()
            call_id = f"{part.start}/{number}"
            arguments: JsonObject = {"path": path, "search": edit["search"], "replace": edit["replace"]}
            self._conversation.call(turn, call_id, "search_replace", arguments)
            self._edits[call_id] = (path, edit["search"])
