"""What the agent is told, at four levels, from templates: L0 signatures, docstrings, documentation and example tests;
L1 signatures and docstrings; L2 names and what each is for; L3 one line.

Reads the repository before the deletion. The names that must exist are said at every level, since nobody could guess
them. No line of the deleted bodies is in any level, not even where the documentation quotes it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import PurePosixPath

from ...tasks.repository import Repository, module_name
from ...tasks.symbols import Definition, DefinitionNode, Module, SourceIndex, docstring_node, first_line, source_index
from ...tasks.task import Level, Symbol
from ...tasks.trees import files_of
from .example_tests import MIN_GOLD_LINE, example_text, gold_lines, plain, without_gold
from .import_time import Target
from .splices import header_end

MAX_PARAGRAPHS = 3
MAX_PARAGRAPH = 600
MAX_DOCUMENTS = 40
DOCUMENTS = (".rst", ".md", ".txt")
HISTORY = re.compile(r"(?i)change|history|news|release|licen[cs]e|requirements|authors")
SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\s*\n")
WHAT_HAPPENED = {
    "stub": "What is named below was emptied; signatures and docstrings are in place.",
    "stub-nodoc": "What is named below was emptied, docstrings too; the signatures are in place.",
    "remove": "What is named below was taken out of the source, with its imports, exports and aliases.",
    "remove-file": "What is named below was deleted with its files, and every import of them.",
}
EXAMPLES = "For example, these tests pass when the work is done:"
RULES = (
    "The tests that are left pass now and must go on passing: `python -m pytest`. "
    "Other tests, which you cannot see, decide. Change the package, not its tests."
)
MAX_LINES = 80


def statements(
    repository: Repository,
    symbols: tuple[Symbol, ...],
    mode: str,
    removed: Iterable[Target] = (),
    examples: Iterable[str] = (),
    edits: Mapping[str, str | None] | None = None,
) -> dict[Level, str]:
    """`examples` names test functions (`path::name`) whose text L0 may show; of `edits` it is told what they take
    besides the symbols."""
    index = source_index(repository)
    documented = mode != "stub-nodoc"
    gold = gold_lines(index, symbols) | (frozenset() if documented else _docstring_lines(index, symbols))
    opening = f"Part of `{repository.name}` is missing. {WHAT_HAPPENED[mode]} Write it again."
    required = required_names(index, removed)
    signatures = [described(index, symbol, documented=documented) for symbol in symbols]
    purposes = [_purpose_line(index, symbol, documented) for symbol in symbols]
    documents = _documentation(repository, symbols)
    shown = [text for name in examples if (text := example_text(index, name, gold))]
    went = lines_that_went(index, edits or {}) if mode.startswith("remove") else {}
    along = titled("These lines went too:", [_code("\n".join([f"# {path}", *lines])) for path, lines in went.items()])
    full = [opening, required, *signatures, *along, *titled("From the documentation:", documents)]
    full += [*titled(EXAMPLES, shown), RULES]
    texts: dict[Level, list[str]] = {
        "L0": full,
        "L1": [opening, required, *signatures, *along, RULES],
        "L2": [opening, required, "\n".join(purposes), RULES],
        "L3": [_one_line(index, symbols, mode, required if not mode.startswith("stub") else ""), RULES],
    }
    return {level: without_gold("\n\n".join(filter(None, parts)), gold) + "\n" for level, parts in texts.items()}


def _docstring_lines(index: SourceIndex, symbols: Iterable[Symbol]) -> frozenset[str]:
    """Where a docstring went too, its words are not told by another way."""
    texts = (documentation_of(each) for symbol in symbols for each in index.definitions[symbol])
    return frozenset(
        found for text in texts for line in text.splitlines() if len(found := plain(line)) >= MIN_GOLD_LINE
    )


def described(index: SourceIndex, symbol: Symbol, documented: bool = True) -> str:
    definitions = index.definitions[symbol]
    module = index.sources[symbol.file]
    parts = [f"### `{symbol.name}` in `{symbol.file}`"]
    members = index.class_members(symbol) if definitions[0].kind == "class" else ()
    asked = [each.symbol for each in members if is_asked_for(index, each.short_name, {symbol.name})]
    shown = [*definitions, *(each for member in asked for each in index.definitions[member])]
    parts.append(_code("\n".join(signature(module, each) for each in shown)))
    for each in shown if documented else ():
        documentation = documentation_of(each)
        if documentation:
            heading = "" if each in definitions else f"`{each.short_name}`: "
            parts.append(textwrap.indent(heading + documentation, "> ", lambda _: True))
    return "\n\n".join(parts)


def is_asked_for(index: SourceIndex, name: str, gone: Collection[str]) -> bool:
    """Whether somebody else could need the name: it is public or Python's own, or a test or a function that stays (in
    none of these definitions) uses it."""
    if not name.startswith("_") or (name.startswith("__") and name.endswith("__")):
        return True
    users = index.mentioned_by.get(name, frozenset[Symbol]())
    return any(name in module.words for module in index.tests.values()) or any(
        user.name not in gone and user.name.rpartition(".")[0] not in gone for user in users
    )


def _purpose_line(index: SourceIndex, symbol: Symbol, documented: bool) -> str:
    purpose = _purpose(index.definitions[symbol][0]) if documented else ""
    return f"- `{symbol.name}` in `{symbol.file}`" + (f": {purpose}" if purpose else "")


def _one_line(index: SourceIndex, symbols: tuple[Symbol, ...], mode: str, required: str) -> str:
    public = [symbol for symbol in symbols if not symbol.name.rpartition(".")[2].startswith("_")] or list(symbols)
    names = ", ".join(f"`{symbol.name}`" for symbol in public)
    files = ", ".join(f"`{path}`" for path in sorted({symbol.file for symbol in public}))
    purpose = _purpose(index.definitions[public[0]][0]) if len(public) == 1 and mode != "stub-nodoc" else ""
    extra = f" {required}" if required else ""
    return f"Make {names} of {files} work again" + (f": {purpose}" if purpose else ".") + extra


def required_names(index: SourceIndex, removed: Iterable[Target]) -> str:
    """Where the removed names could be imported from. What a module only imports from outside is nobody's business,
    unless a test writes it with the module's name."""
    removed = frozenset(removed)
    gone = {name for _, name in removed}
    dotted = sorted(
        dotted
        for path, name in removed
        if path in index.sources and "." not in name and name != "__all__" and is_asked_for(index, name, gone)
        for dotted in [f"{module_name(path, index.repository.source_roots)}.{name}"]
        if name not in _from_outside(index, path) or any(dotted in each.text for each in index.tests.values())
    )
    return "These names must exist again: " + ", ".join(f"`{name}`" for name in dotted) + "." if dotted else ""


def _from_outside(index: SourceIndex, path: str) -> frozenset[str]:
    module = index.sources[path]
    imports = [node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return frozenset(
        (alias.asname or alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
        if index.find_module(module, *_origin(node, alias)) is None
    )


def _origin(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[int, str]:
    return (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, alias.name)


def signature(module: Module, definition: Definition) -> str:
    node = definition.node
    start = module.line_starts[first_line(node) - 1]
    return textwrap.dedent(module.text[start : header_end(module, node)])


def documentation_of(definition: Definition) -> str:
    node = docstring_node(definition.node)
    if node is None or not isinstance(node.value, ast.Constant):
        return ""
    return inspect.cleandoc(str(node.value.value)).strip()


def _purpose(definition: Definition) -> str:
    """The first sentence of its docstring."""
    sentence = SENTENCE_END.split(documentation_of(definition), maxsplit=1)[0]
    return " ".join(sentence.split())[:200]


def _documentation(repository: Repository, symbols: Iterable[Symbol]) -> list[str]:
    """Paragraphs that name a symbol as code does: quoted, called or as an attribute."""
    names = {symbol.name.rpartition(".")[2] for symbol in symbols}
    public = sorted(name for name in names if not name.startswith("_"))
    if not public:
        return []
    either = "|".join(map(re.escape, public))
    named = re.compile(rf"[`.](?:{either})\b|\b(?:{either})\(")
    found: list[str] = []
    for text in _documents(repository):
        for paragraph in re.split(r"\n\s*\n", text):
            if named.search(paragraph) and len(paragraph) <= MAX_PARAGRAPH:
                found.append(textwrap.indent(textwrap.dedent(paragraph).strip(), "> ", lambda _: True))
                if len(found) == MAX_PARAGRAPHS:
                    return found
    return found


@lru_cache(maxsize=8)
def _documents(repository: Repository) -> tuple[str, ...]:
    paths = [
        path
        for path in files_of(repository.tree)
        if path.endswith(DOCUMENTS) and not HISTORY.search(PurePosixPath(path).name)
    ]
    chosen = [repository.tree / path for path in paths[:MAX_DOCUMENTS]]
    return tuple(path.read_text(encoding="utf-8", errors="replace") for path in chosen)


def titled(title: str, parts: list[str]) -> list[str]:
    return [title, *parts] if parts else []


def _code(text: str) -> str:
    return f"```python\n{textwrap.dedent(text).rstrip()}\n```"


def lines_that_went(index: SourceIndex, edits: Mapping[str, str | None]) -> dict[str, list[str]]:
    """What a removal takes besides definitions and imports (entries of tables, aliases, constants of a removed file),
    by file, in its order. Statements of which not all would fit are left out: a half would mislead."""
    found: dict[str, list[str]] = {}
    left = MAX_LINES
    for path, text in sorted(edits.items()):
        module = index.sources.get(path)
        if module is None:
            continue
        gone = _gone(module, text)
        for statement in _outside(module):
            lines = [module.lines[line - 1].rstrip() for line in statement if line in gone]
            if lines and len(lines) <= left:
                left -= len(lines)
                found.setdefault(path, []).extend(lines)
    return found


def _gone(module: Module, text: str | None) -> set[int]:
    if text is None:
        return set(range(1, len(module.lines) + 1))
    after = text.splitlines(keepends=True)
    changes = SequenceMatcher(None, module.lines, after, autojunk=False).get_opcodes()
    return {line for kind, start, end, *_ in changes if kind != "equal" for line in range(start + 1, end + 1)}


def _outside(module: Module) -> Iterator[list[int]]:
    """Lines of each statement that is no definition, import or list of exports."""
    for node in module.tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, DefinitionNode | ast.Import | ast.ImportFrom) or _is_exports(node):
            continue
        if any(isinstance(each, DefinitionNode) for each in ast.walk(node)):
            continue
        lines = range(first_line(node), (node.end_lineno or node.lineno) + 1)
        yield [line for line in lines if module.lines[line - 1].strip()]


def _is_exports(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets)
