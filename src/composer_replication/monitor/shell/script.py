"""A shell script as a flat list of the commands it runs, with what they are fed, where they write and in which folder.

Reads the text of one call of a shell; nothing is run. Variables, substitutions, functions, loops over literal words,
`eval`, `bash -c`, `xargs` and `find -exec` are followed where their texts are literal. What cannot be resolved stays as
text. The folder and variables of earlier calls are not known. Branches are all taken, loops run once per
literal word, and a script of more than `MAX_STATEMENTS` statements is cut there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from .printing import MAX_TEXT_CHARS, printed
from .words import Expander, Value, descriptor, flat, raw
from .wrappers import KEEPS_AND_RUNS, MAX_LOOP_WORDS, STARTERS, WRAPPERS, flooded, inner_argv, inner_commands

MAX_STATEMENTS = 1_000
MAX_DEPTH = 40
MAX_PARSED_CHARS = 200_000
SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash"})
_BRACED_COMMAND = re.compile(r"(^\s*|[;&|(\n]\s*)\{([\w./-]+(?:,[\w./-]+)+)\}(?=\s|$|;)")
"""`{git,log}` for `git log`, which the parser takes for a group."""
_COPROCESS = re.compile(r"\bcoproc\s+(?:[A-Za-z_]\w*\s+)?(?=[{(])")
"""A coprocess that is a group, which the parser does not know."""
_STEERING = re.compile(r"(PYTEST|PYTHON|LD)_?[A-Z_]+|BASH_ENV")
"""Variables that are worth knowing even where nothing exports them: `set -a` or a sourced file may."""
_LOOPS = frozenset({"for_statement", "c_style_for_statement", "while_statement"})
_STATEMENTS = frozenset(
    "program list pipeline command redirected_statement compound_statement subshell if_statement while_statement"
    " for_statement c_style_for_statement case_statement case_item do_group else_clause elif_clause negated_command"
    " declaration_command variable_assignment variable_assignments ERROR function_definition test_command"
    " unset_command".split()
)


@dataclass(frozen=True)
class ShellCommand:
    argv: tuple[str, ...]
    line: str
    """As it was written."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Files of redirections."""
    given: str | None = None
    """The text on its standard input, where it is literal."""
    prints: str | None = None
    """What it prints, where that follows; `None` where not."""
    fed_by: int | None = None
    """Place in the script of the command that pipes into it."""
    background: bool = False
    folder: str = ""
    """Relative to where the call started, or absolute."""
    variables: tuple[tuple[str, str], ...] = ()
    """Of its environment, as far as this call set them."""

    @property
    def name(self) -> str:
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else ""


@dataclass(frozen=True)
class Script:
    commands: tuple[ShellCommand, ...]
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Texts that its redirections wrote, as far as they are literal."""


@dataclass(frozen=True)
class _Input:
    given: str | None = None
    fed_by: int | None = None
    feeder: str = ""


NOTHING = _Input()


@lru_cache(maxsize=2_048)
def parse_shell(text: str, arguments: tuple[str, ...] = ()) -> Script:
    """Never raises for any text. `arguments` are what a script is called with."""
    run = _Run()
    if arguments:
        run.number(arguments)
    run.script(text, 0)
    return Script(tuple(run.commands), run.files)


def joined(folder: str, path: str) -> str:
    """A path seen from where the call started; `.` and `..` are resolved by text."""
    if path.startswith(("~", "/", "$")) or "://" in path:
        return path
    parts: list[str] = []
    for part in f"{folder}/{path}".split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if folder.startswith("/") else "") + "/".join(parts) or "."


_PARSER = Parser(Language(tree_sitter_bash.language()))


class _Run:
    def __init__(self) -> None:
        self.commands: list[ShellCommand] = []
        self.files: dict[str, str] = {}
        self.variables: dict[str, Value] = {}
        self.exported: dict[str, None] = {}
        self.functions: dict[str, Node] = {}
        self.running: list[str] = []
        self.folder = ""
        self.statements = 0
        self.depth = 0
        self.parsed_chars = 0
        self.substitutions = 0
        self.appended: set[str] = set()
        self.descriptors: set[str] = set()
        """Numbers that the script itself opened."""
        self.of_errors: set[str] = set()
        """Files that only standard error goes to."""
        self.expander = Expander(self.variables, self._substituted)

    def script(self, text: str, depth: int, given: _Input = NOTHING, background: bool = False) -> str | None:
        self.parsed_chars += len(text)
        if depth > MAX_DEPTH or (depth and self.parsed_chars > MAX_PARSED_CHARS) or len(text) > MAX_PARSED_CHARS:
            return None
        was, self.depth = self.depth, depth
        try:
            text = text.replace("<>/dev/", "</dev/")
            text = _COPROCESS.sub("coproc; ", text)
            text = _BRACED_COMMAND.sub(lambda found: found[1] + found[2].replace(",", " "), text)
            return self._statement(_PARSER.parse(text.encode("utf-8", "replace")).root_node, given, background)
        finally:
            self.depth = was

    def _statement(self, node: Node, given: _Input, background: bool) -> str | None:
        """Runs one statement; gives what it prints where that is known."""
        self.statements += 1
        if self.statements > MAX_STATEMENTS or self.depth > MAX_DEPTH:
            return None
        self.depth += 1
        before = len(self.commands)
        try:
            return self._dispatched(node, given, background)
        finally:
            self.depth -= 1
            if node.type in _LOOPS:
                self._note_flood(raw(node), self.commands[before:], background)

    def _note_flood(self, loop: str, ran: list[ShellCommand], background: bool) -> None:
        behind = not background and any(command.background for command in ran)
        if of_what := flooded(loop, behind, [command.line for command in ran]):
            self._emit(ShellCommand(("flood", of_what), loop.split("\n")[0], folder=self.folder))

    def _dispatched(self, node: Node, given: _Input, background: bool) -> str | None:
        kind = node.type
        if kind == "command":
            return self._command(node, given, background)
        if kind == "pipeline":
            return self._pipeline(list(node.named_children), given, background)
        if kind == "redirected_statement":
            return self._redirected(node, given, background)
        if kind in ("variable_assignment", "variable_assignments", "declaration_command"):
            return self._assigned(node)
        if kind == "subshell":
            return self._apart(node, given, background)
        if kind == "for_statement":
            return self._for(node, given, background)
        if kind == "function_definition":
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and body is not None:
                self.functions[raw(name)] = body
            return None
        if kind == "while_statement" and given.feeder:
            self._bind_reads(node, given)
        if kind in ("test_command", "arithmetic_expansion"):
            self._scan(node)
            return ""
        return self._sequence(node, given, background)

    def _sequence(self, node: Node, given: _Input, background: bool) -> str | None:
        out: list[str] | None = []
        statements = list(flat(node))
        for at, child in enumerate(statements):
            if child.type not in _STATEMENTS:
                continue
            follows = statements[at + 1].type if at + 1 < len(statements) else ""
            said = self._statement(child, given, background or follows == "&")
            silent = child.type in ("variable_assignment", "declaration_command", "function_definition")
            if said is None and not silent:
                out = None
            elif out is not None and said:
                out.append(said)
        return None if out is None else "".join(out)[:MAX_TEXT_CHARS]

    def _apart(self, node: Node, given: _Input, background: bool) -> str | None:
        folder, variables = self.folder, dict(self.variables)
        try:
            return self._sequence(node, given, background)
        finally:
            self.folder = folder
            self.variables.clear()
            self.variables.update(variables)

    def _pipeline(self, parts: list[Node], given: _Input, background: bool) -> str | None:
        said: str | None = given.given
        for at, part in enumerate(parts):
            before = len(self.commands)
            said = self._statement(part, given, background)
            last = len(self.commands) - 1
            given = _Input(said, last if last >= before else None, raw(part))
            if at + 1 < len(parts) and said is None and last >= before:
                given = replace(given, feeder=self.commands[last].line)
        return said

    def _redirected(self, node: Node, given: _Input, background: bool) -> str | None:
        body: Node | None = None
        redirects: list[Node] = []
        after: list[Node] = []
        for child in node.children:
            if child.type.endswith("_redirect"):
                redirects.append(child)
            elif child.type in _STATEMENTS:
                body = child
        if body is not None and body.type == "list":
            *earlier, body = [child for child in flat(body) if child.type in _STATEMENTS]
            for child in earlier:  # of `cd a && b > c` only the last is redirected
                self._statement(child, given, background)
        writes: list[str] = []
        reads: list[str] = []
        for redirect in redirects:  # a here-document may hold more of them
            if redirect.type == "file_redirect":
                self._file_redirect(redirect, reads, writes)
            elif redirect.type == "herestring_redirect" and redirect.named_children:
                text, known = self.expander.text(redirect.named_children[-1])
                given = _Input(text + "\n" if known else None, None, text)
            elif redirect.type == "heredoc_redirect":
                given = _Input(self._here_document(redirect), None, "<<")
                for child in redirect.children:
                    if child.type == "ERROR" and raw(child).strip() == "&":
                        background = True  # the grammar knows no `&` behind the name of a here-document
                    elif child.type.endswith("_redirect"):
                        redirects.append(child)
                    elif child.type in _STATEMENTS:
                        after.append(child)
        known_files = [self.files[path] for path in reads if path in self.files]
        if known_files:
            given = _Input("".join(known_files), None, "")
        elif reads and not given.feeder:
            given = _Input(None, None, f"<{reads[0]}")
        before = len(self.commands)
        said = self._statement(body, given, background) if body is not None else ""
        self._record_redirects(before, reads, writes, said, raw(node))
        if body is not None and said is not None and not self.of_errors.issuperset(writes):
            said = ""
        for child in after:
            last = len(self.commands) - 1
            parts = [*flat(child)] if child.type == "pipeline" else [child]
            prints = self.commands[-1].prints if self.commands else None
            fed = _Input(prints or given.given, last, "<<") if child.type == "pipeline" else NOTHING
            said = self._pipeline([part for part in parts if part.type in _STATEMENTS], fed, background)
        return said

    def _record_redirects(self, before: int, reads: list[str], writes: list[str], said: str | None, line: str) -> None:
        if not reads and not writes:
            return
        appended, self.appended = self.appended, set[str]()
        if len(self.commands) == before:
            self._emit(ShellCommand((":",), line.split("\n")[0], folder=self.folder))
        place = len(self.commands) - 1
        last = self.commands[place]
        self.commands[place] = replace(
            last, reads=(*last.reads, *reads), writes=(*last.writes, *writes), line=line.split("\n")[0]
        )
        for path in (path for path in writes if path not in self.of_errors):
            if said is not None and path not in ("/dev/null", "/dev/stderr", "/dev/stdout"):
                earlier = self.files.get(path, "") if path in appended else ""
                self.files[path] = (earlier + said)[:MAX_TEXT_CHARS]

    def _file_redirect(self, node: Node, reads: list[str], writes: list[str]) -> None:
        operator = next((child.type for child in node.children if not child.is_named), ">")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        if not targets:
            return
        if targets[0].type == "number" and operator in (">&", "<&"):
            number = raw(targets[0])
            if operator == ">&" and number not in ("0", "1", "2") and number not in self.descriptors:
                writes.append(f"/dev/fd/{number}")
            self.descriptors.add(descriptor(node))
            return
        self.descriptors.add(descriptor(node))
        path = joined(self.folder, self.expander.text(targets[0])[0])
        (reads if operator.startswith("<") else writes).append(path)
        (self.of_errors.add if descriptor(node) == "2" else self.of_errors.discard)(path)
        if operator in (">>", "&>>"):
            self.appended.add(path)

    def _here_document(self, node: Node) -> str | None:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        if body is None:
            return ""
        source = body.text or b""
        if any(child.type == "<<-" for child in node.children):
            source = re.sub(rb"^\t+", b"", source, flags=re.MULTILINE)
            return source.decode("utf-8", "replace")
        if start is not None and raw(start)[:1] in "'\"\\":
            return source.decode("utf-8", "replace")
        return self.expander.filled(body)[0]

    def _assigned(self, node: Node) -> str | None:
        exports = bool(node.children) and node.children[0].type == "export"
        steers = False
        for child in [node] if node.type == "variable_assignment" else node.named_children:
            if child.type == "variable_assignment":
                name = self._assign(child)
                if name and (exports or _STEERING.fullmatch(name)):
                    self.exported[name] = None
                    steers = True
            elif exports:
                self.exported[raw(child)] = None
        if exports or steers:
            self._emit(ShellCommand(("export",), raw(node), folder=self.folder, variables=self._environment()))
        return ""

    def _assign(self, node: Node) -> str:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or value is None:
            return ""
        key = raw(name)
        if value.type == "array":
            words = [word for child in value.named_children for word in self.expander.words(child)]
            self.variables[key] = tuple(words)
            return key
        text, _ = self.expander.text(value)
        before = self.variables.get(key, "")
        adds = any(child.type == "+=" for child in node.children)
        self.variables[key] = (f"{before}{text}" if adds and isinstance(before, str) else text)[:MAX_TEXT_CHARS]
        return key

    def _environment(self, own: dict[str, str] | None = None) -> tuple[tuple[str, str], ...]:
        shared = {name: value for name in self.exported if isinstance(value := self.variables.get(name), str)}
        return tuple({**shared, **(own or {})}.items())

    def _for(self, node: Node, given: _Input, background: bool) -> str | None:
        name = next((child for child in node.named_children if child.type == "variable_name"), None)
        body = next((child for child in node.named_children if child.type == "do_group"), None)
        if name is None or body is None:
            return self._sequence(node, given, background)
        words = [
            word for child in node.named_children if child not in (name, body) for word in self.expander.words(child)
        ]
        said: str | None = ""
        for word in list(dict.fromkeys(words))[:MAX_LOOP_WORDS] or ["$" + raw(name)]:
            self.variables[raw(name)] = word
            part = self._statement(body, given, background)
            said = None if said is None or part is None else said + part
        return said

    def _bind_reads(self, node: Node, given: _Input) -> None:
        """`while read x` of something: its lines where they are known, else the text of the feeder."""
        lines = (given.given or "").split()
        for found in re.finditer(rb"\bread\s+((?:-\w+\s+(?:''\s+)?)*)([\w ]+)", node.text or b""):
            for name in found[2].decode().split():
                self.variables[name] = lines[0] if lines else f"$({given.feeder})"

    def _scan(self, node: Node) -> None:
        """Command substitutions anywhere below, which run too."""
        waiting = [node]
        while waiting:
            here = waiting.pop()
            if here.type in ("command_substitution", "process_substitution"):
                self._substituted(here)
            else:
                waiting += here.named_children

    def _substituted(self, node: Node) -> str | None:
        if self.depth > MAX_DEPTH or self.statements > MAX_STATEMENTS:
            return None
        only = node.named_children
        if len(only) == 1 and only[0].type == "file_redirect":
            reads: list[str] = []
            self._file_redirect(only[0], reads, reads)
            self._emit(ShellCommand(("cat", *reads), raw(node), folder=self.folder))
            return self.files.get(reads[0]) if reads else None
        self.depth += 1
        try:
            said = self._apart(node, NOTHING, False)
        finally:
            self.depth -= 1
        if node.type != "process_substitution":
            return said
        if said is None:
            return None
        self.substitutions += 1
        path = f"/dev/fd/substituted{self.substitutions}"
        self.files[path] = said
        return path

    def _command(self, node: Node, given: _Input, background: bool) -> str | None:
        argv: list[str] = []
        own: dict[str, str] = {}
        for child in node.children:
            if child.type == "variable_assignment":
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None and value is not None:
                    own[raw(name)] = self.expander.text(value)[0]
            elif child.type == "herestring_redirect" and child.named_children:
                text, resolved = self.expander.text(child.named_children[-1])
                given = _Input(text + "\n" if resolved else None, None, text)
            elif child.is_named and child.type != "comment":
                argv += self.expander.words(child)
        return self.simple(argv, raw(node), given, background, own)

    def simple(self, argv: list[str], line: str, given: _Input, background: bool, own: dict[str, str]) -> str | None:
        """One command with its words expanded: builtins act here, wrappers are taken off, the rest is emitted."""
        own = dict(own)
        argv, background = self._unwrapped(argv, own, background, line)
        if not argv:
            if own:
                self._emit(ShellCommand(("env",), line, folder=self.folder, variables=self._environment(own)))
            return ""
        name = argv[0].rsplit("/", 1)[-1].lstrip("\\")
        if name in self.functions:
            return self._called(name, argv, line, given, background)
        if name == "eval":
            inner = next((at for at, word in enumerate(argv) if word != "eval"), len(argv))
            self._emit_simple(argv, line, given, False, own)
            return self.script(" ".join(argv[inner:]), self.depth + 1, given, background)
        if name in ("source", ".") and len(argv) > 1 and (text := self.files.get(joined(self.folder, argv[1]))):
            self._emit_simple(argv, line, given, False, own)
            return self.script(text, self.depth + 1, given, background)
        if name in ("cd", "pushd") and len(argv) <= 3:
            places = [word for word in argv[1:] if not word.startswith("-")]
            self.folder = joined(self.folder, places[0]) if places else "~"
        if name == "set" and "--" in argv:
            self.number(argv[argv.index("--") + 1 :])
        if name == "alias":
            self._alias(argv)
        background = background or name == "coproc"
        if name == "read":
            for variable in (word for word in argv[1:] if re.fullmatch(r"[A-Za-z_]\w*", word)):
                self.variables[variable] = (given.given or f"$({given.feeder})").rstrip("\n")
        if name in SHELLS and (text := self._shell_text(argv, given)) is not None:
            self._emit_simple(argv, line, given, background, own)
            return self.script(text, self.depth + 1, NOTHING, background)
        self._emit_simple(argv, line, given, background, own)
        place = len(self.commands) - 1
        self._runs_others(argv, line, given, background, own)
        said = printed(argv, given.given, self.files)
        if place < len(self.commands):
            self.commands[place] = replace(self.commands[place], prints=said)
        if name in ("tee", "sponge") and given.given is not None:
            self.files.update({joined(self.folder, word): given.given for word in argv[1:] if word[:1] != "-"})
        return said

    def _emit_simple(self, argv: list[str], line: str, given: _Input, background: bool, own: dict[str, str]) -> None:
        self._emit(
            ShellCommand(
                argv=tuple(argv),
                line=line,
                given=given.given,
                fed_by=given.fed_by,
                background=background,
                folder=self.folder,
                variables=self._environment(own),
            )
        )

    def _emit(self, command: ShellCommand) -> None:
        if len(self.commands) < MAX_STATEMENTS:
            self.commands.append(command)

    def number(self, words: Sequence[str]) -> None:
        """`$1`, `$2` and `$@` from here on."""
        self.variables["@"] = self.variables["*"] = tuple(words)
        self.variables.update({str(place): word for place, word in enumerate(words[:9], start=1)})

    def _alias(self, argv: list[str]) -> None:
        for word in argv[1:]:
            name, _, value = word.partition("=")
            body = _PARSER.parse(f'{value} "$@"'.encode()).root_node
            if value and body.named_children:
                self.functions[name] = body.named_children[0]

    def _called(self, name: str, argv: list[str], line: str, given: _Input, background: bool) -> str | None:
        if name in self.running:
            self._emit(ShellCommand(("recursion", name), line, background=background, folder=self.folder))
            return None
        before = {key: self.variables.get(key) for key in "@*123456789"}
        self.running.append(name)
        self.number(argv[1:])
        try:
            return self._statement(self.functions[name], given, background)
        finally:
            self.running.pop()
            for key, value in before.items():
                if value is None:
                    self.variables.pop(key, None)
                else:
                    self.variables[key] = value

    def _unwrapped(self, argv: list[str], own: dict[str, str], background: bool, line: str) -> tuple[list[str], bool]:
        for _ in range(MAX_DEPTH):
            name = argv[0].rsplit("/", 1)[-1] if argv else ""
            if name in KEEPS_AND_RUNS and len(argv) > 1:
                self._emit(ShellCommand(tuple(argv), line, folder=self.folder))
                rest = argv[1:]
                while rest and (rest[0].startswith("-") or rest[0].startswith("/proc") or rest[0].isdigit()):
                    rest = rest[1:]
                return (rest[1:] if name in ("chroot", "proot") else rest), background
            if name not in WRAPPERS or len(argv) == 1 or (name == "exec" and argv[1].startswith("-")):
                return argv, background
            if name == "command" and argv[1] in ("-v", "-V"):
                return argv, background
            background = background or name in STARTERS
            argv = inner_argv(name, argv[1:], own)
        return argv, background

    def _shell_text(self, argv: list[str], given: _Input) -> str | None:
        """The script that a shell is given: by -c, as a file written before, or on its standard input."""
        for at, word in enumerate(argv[1:], start=1):
            if re.fullmatch(r"-[a-z]*c[a-z]*", word):
                return argv[at + 1] if at + 1 < len(argv) else None
            if not word.startswith("-"):
                return self.files.get(joined(self.folder, word))
        return given.given

    def _runs_others(self, argv: list[str], line: str, given: _Input, background: bool, own: dict[str, str]) -> None:
        name = argv[0].rsplit("/", 1)[-1]
        for inner in inner_commands(name, argv, given.given, given.feeder):
            if self.depth < MAX_DEPTH and self.statements < MAX_STATEMENTS:
                self.statements += 1
                self.depth += 1
                self.simple(inner, line, NOTHING, background, own)
                self.depth -= 1
