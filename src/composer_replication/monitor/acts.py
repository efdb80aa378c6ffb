"""What a step of a rollout did, as acts: from shell commands, from Python in all its places, from the file tools.

Reads steps and the texts that earlier steps of the same trace wrote, so that a script is known when it is run. Gives
acts; runs nothing. A script that was there before the trace, or came over the network, is only a `run` act.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

from .conduct import Act, ToolStep
from .python.source import python_acts
from .python.values import NOTHING_GIVEN, Given
from .shell.programs import INSTALLERS, SEARCHERS, command_acts, requirement_files
from .shell.script import SHELLS, Script, ShellCommand, joined, parse_shell

MAX_NESTED = 5
MAX_PATH_CHARS = 400
OTHER_LANGUAGES = ("perl", "ruby", "node", "nodejs", "php")
HIDING_PLACES = ("dist", "build", ".git", "objects", "__pycache__", "site-packages", "dist-packages", "lib")
"""Folders that a pattern with `?` or `[…]` may spell in another way."""
HIDING_PLACES_BY_STAR = (
    "__pycache__", "objects", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".pytype", ".pyre", "htmlcov",
    ".ipynb_checkpoints", ".cache",
)  # fmt: skip
HIDING_SUFFIXES = ("pyc", "so", "class", "jar", "whl", "egg", "orig", "swp", "pack", "bak")
ORDINARY_SUFFIXES = (
    "py", "pyi", "txt", "md", "rst", "toml", "cfg", "ini", "json", "yml", "yaml", "sh", "c", "h", "js", "css", "html",
    "csv", "log", "lock", "in", "po", "xml", "svg", "png", "o", "out", "tmp", "zip",
)  # fmt: skip
"""Of files that everybody looks at: a pattern that fits one of these hides nothing."""
PYTHONS = re.compile(r"(python|pypy|ipython)[\d.]*|py")
_OPTIONS_WITH_VALUES = ("-W", "-X", "--check-hash-based-pycs")
_PATCH_FILE = re.compile(
    r"^(?:\*\*\* (?P<what>Add|Update|Delete) File: (?P<named>.+)|"
    r"\+\+\+ (?:b/)?(?P<new>\S+)|--- (?:a/)?(?P<old>\S+))\s*$"
)


def acts_of(step: ToolStep, files: Mapping[str, str] | None = None) -> list[Act]:
    """`files` are the texts that were written before this step, by path."""
    return list(_of_step(step, files or {}))


def acts_of_steps(steps: Iterable[ToolStep]) -> list[list[Act]]:
    """The acts of each step in order, with what earlier ones wrote."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    found: list[list[Act]] = []
    for step in steps:
        acts = [_through_links(act, links) for act in acts_of(step, files)]
        remember(step, acts, files)
        found.append(acts)
    return found


def _through_links(act: Act, links: dict[str, str]) -> Act:
    """The act as seen behind the links that the trace made; `links` learns those to places outside of the tree."""
    if act.verb not in _OF_PATHS:
        return act
    if act.verb == "write" and act.detail in ("ln", "os.symlink", "os.link"):
        if act.text.startswith(("/", "~", "..")):
            links[act.target] = act.text
        return act
    if act.verb in ("write", "delete") or not links:
        return act
    link = next((name for name in links if act.target == name or act.target.startswith(f"{name}/")), None)
    if link is None:
        return act
    return act._replace(target=links[link].rstrip("/") + act.target[len(link) :] or "/")


def remember(step: ToolStep, acts: Iterable[Act], files: MutableMapping[str, str]) -> None:
    """Note the texts that a step with these acts wrote, as far as they are literal."""
    if step.kind == "write":
        files[inside(step.path)] = step.text
    elif step.kind == "edit" and (before := files.get(inside(step.path))) is not None:
        files[inside(step.path)] = before.replace(step.old, step.text, 1) if step.old else step.text
    elif step.kind == "command":
        files.update({inside(path): text for path, text in parse_shell(step.command).files.items()})
    elif step.kind == "patch":
        files.update({path: text for path, text, _, deleted in patched(step.command) if not deleted})
    if step.kind in ("command", "python"):
        for act in acts:
            if act.verb == "write" and act.text and act.detail in ("open", "io.open", "write_text", "write_bytes"):
                files[act.target] = act.text


def inside(path: str) -> str:
    """A path relative to the working folder of a code task."""
    path = path[:MAX_PATH_CHARS].removeprefix("file://")
    if "//" in path or "/./" in path:
        path = re.sub(r"/(\./)+|//+", "/", path)
    path = path.removeprefix("./")
    return path.removeprefix("/work/") if path != "/work" else "."


def spelled_out(path: str) -> str:
    """A path whose patterns stand for one well-known folder or suffix, as `d?st` or `*.cl*s`, with that name."""
    if not re.search(r"[?*\[]", path):
        return path
    parts = path.split("/")
    for at, part in enumerate(parts):
        literal = re.sub(r"\[[^\]]*\]|[*?]", "", part)
        if len(re.findall(r"\w", literal)) < 2:
            continue
        if re.search(r"[?\[]", part):
            parts[at] = next((name for name in HIDING_PLACES if fnmatchcase(name, part)), part)
        if "*" in parts[at] and re.search(r"[a-zA-Z]{2}", parts[at]):
            parts[at] = next((name for name in HIDING_PLACES_BY_STAR if fnmatchcase(name, parts[at])), parts[at])
    parts[-1] = _suffix_spelled_out(parts[-1])
    return "/".join(parts)


def _suffix_spelled_out(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    if not dot or not re.search(r"[?*\[]", suffix) or not re.search(r"[a-z]", suffix):
        return name
    if any(fnmatchcase(each, suffix) for each in ORDINARY_SUFFIXES):
        return name
    return next((f"{stem}.{each}" for each in HIDING_SUFFIXES if fnmatchcase(each, suffix)), name)


def _of_step(step: ToolStep, files: Mapping[str, str]) -> Iterator[Act]:
    first = step.command.strip().split("\n")[0]
    if step.kind == "command":
        yield from _of_text(step.command, files, 0)
    elif step.kind == "python":
        yield from _of_python(step.command, files, 0, "")
    elif step.kind == "read":
        yield Act("read", inside(step.path), step.tool, f"{step.tool} {step.path}")
    elif step.kind in ("write", "edit"):
        detail = "edit" if step.kind == "edit" else "write"
        yield Act("write", inside(step.path), detail, f"{step.tool} {step.path}", step.text, step.old)
    elif step.kind == "patch":
        for path, text, old, deleted in patched(step.command):
            line = f"{step.tool} {path}"
            yield Act("delete" if deleted else "write", path, "patch", line, text, old)
    elif step.kind == "search":
        where = inside(step.path) if step.path else "."
        if re.search(r"[*?]", step.command) and step.tool.lower() in ("glob", "find_file", "list_files"):
            yield Act("list", f"{where}/{step.command}", step.tool, f"{step.tool} {first}")
        else:
            yield Act("search", where, step.tool, f"{step.tool} {first}", step.command)
    elif step.command.startswith(("http://", "https://")):
        yield Act("net", step.command, step.tool, f"{step.tool} {first}")


def _of_text(text: str, files: Mapping[str, str], nested: int, arguments: tuple[str, ...] = ()) -> Iterator[Act]:
    if nested <= MAX_NESTED and text:
        yield from _of_script(parse_shell(text, arguments) if arguments else parse_shell(text), files, nested)


def _of_script(script: Script, files: Mapping[str, str], nested: int) -> Iterator[Act]:
    known = {**files, **{inside(path): text for path, text in script.files.items()}} if script.files else files
    for command in script.commands:
        for act in _plain_acts(command):
            if act.verb == "shell":
                yield from _of_text(act.target, known, nested + 1)
            else:
                yield act
        yield from _of_interpreter(command, known, nested)
        if command.name in SEARCHERS and command.fed_by is not None and command.fed_by < len(script.commands):
            yield from _sifted(command, script.commands[command.fed_by].name)


def _sifted(command: ShellCommand, feeder: str) -> Iterator[Act]:
    """What is asked of the environment, or of the kinds that `file` tells."""
    words = "".join(word for word in command.argv[1:] if not word.startswith("-"))
    if feeder in ("env", "printenv", "export", "declare", "set"):
        yield Act("list", f"environment/**/*{words}", "env", command.line)
        return
    keeps = not any(re.match(r"-\w*v", word) for word in command.argv[1:])
    if feeder == "file" and keeps and re.search(r"\bELF\b|[Bb]yte-compiled|Java class|shared object", words):
        yield Act("list", "**/*.pyc" if "yte-compiled" in words else "**/*.so", "grep of file", command.line)


@lru_cache(maxsize=4_096)
def _plain_acts(command: ShellCommand) -> tuple[Act, ...]:
    found = (
        act._replace(target=spelled_out(inside(act.target))) if act.verb in _OF_PATHS else act
        for act in command_acts(command)
    )
    return tuple(dict.fromkeys(found))


_OF_PATHS = frozenset({"read", "write", "delete", "list", "search", "unpack", "decode"})


def _of_interpreter(command: ShellCommand, files: Mapping[str, str], nested: int) -> Iterator[Act]:
    """What a script that the trace itself wrote would do, when it is run."""
    name = command.name
    if PYTHONS.fullmatch(name):
        yield from _of_python_command(command, files, nested)
    elif name in SHELLS or name in ("source", "."):
        at = next((at for at, word in enumerate(command.argv) if at and not word.startswith("-")), len(command.argv))
        script = "".join(command.argv[at : at + 1])
        text = files.get(inside(joined(command.folder, script)), "")
        yield from _of_text(text, files, nested + 1, command.argv[at + 1 :])
    elif name == "patch" or (name == "git" and "apply" in command.argv[:4]):
        named = [inside(joined(command.folder, word)) for word in (*command.argv[1:], *command.reads)]
        text = command.given or next((files[path] for path in named if path in files), "")
        if not text and name == "patch" and len(named) > 0:
            operands = [path for path, word in zip(named, command.argv[1:], strict=False) if word[:1] not in "-"]
            yield from (Act("write", path, "patch", command.line) for path in operands[:1])
        for path, put, taken, deleted in patched(text):
            yield Act("delete" if deleted else "write", path, "patch", command.line, put, taken)
    elif name in INSTALLERS:
        yield from _of_requirements(command, files)
    elif name == "pytest":
        return
    elif name in OTHER_LANGUAGES:
        script = next((word for word in command.argv[1:] if not word.startswith("-")), "")
        text = files.get(inside(joined(command.folder, script)), "") if script else command.given
        for act in _plain_acts(replace(command, argv=(name, "-e", text))) if text else ():
            if act.verb == "shell":
                yield from _of_text(act.target, files, nested + 1)
            elif act.verb in ("read", "delete", "fork", "net"):
                yield act
    elif text := files.get(inside(joined(command.folder, command.argv[0] if command.argv else ""))):
        if re.match(r"#!.*python", text):
            yield from _of_python(text, files, nested + 1, command.folder, given=_given(command, command.argv[1:]))
        else:
            yield from _of_text(text, files, nested + 1, command.argv[1:])


def _given(command: ShellCommand, arguments: Sequence[str]) -> Given:
    return Given(tuple(arguments), command.variables, command.given)


def _of_requirements(command: ShellCommand, files: Mapping[str, str]) -> Iterator[Act]:
    """What the trace's own files of requirements ask for."""
    waiting = list(requirement_files(command.argv))
    for path in waiting:
        for line in files.get(inside(joined(command.folder, path)), "").splitlines():
            wanted = line.partition("#")[0].strip()
            if wanted.startswith("-"):
                waiting += [each for each in requirement_files(wanted.split()) if each not in waiting]
            elif wanted:
                yield Act("install", wanted, f"{command.name} install", command.line, wanted)


def _of_python_command(command: ShellCommand, files: Mapping[str, str], nested: int) -> Iterator[Act]:
    words = list(command.argv[1:])
    flags = ""
    while words and words[0].startswith("-") and words[0] != "-":
        option = words.pop(0)
        if option == "-m" or (found := re.fullmatch(r"-([a-zA-Z]*)m", option)):
            yield from _of_module(command, words, files, nested, flags)
            return
        if found := re.fullmatch(r"-([a-zA-Z]*)c(.*)", option, re.DOTALL):
            source = found[2] or (words.pop(0) if words else "")
            yield from _of_python(source, files, nested, command.folder, flags + found[1], _given(command, words))
            return
        flags += option.lstrip("-") if not option.startswith("--") else ""
        if option in _OPTIONS_WITH_VALUES and words:
            words.pop(0)
    if words and words[0] != "-":
        path = inside(joined(command.folder, words[0]))
        if path.endswith((".pyc", ".whl", ".pyz", ".zip", ".egg")):
            yield Act("decode", path, "python", command.line, folder=command.folder)
        yield from _of_python(files.get(path, ""), files, nested, command.folder, flags, _given(command, words[1:]))
    elif command.given:
        given = Given(tuple(words[1:]), command.variables)
        yield from _of_python(command.given, files, nested, command.folder, flags, given)


def _of_module(
    command: ShellCommand, words: list[str], files: Mapping[str, str], nested: int, flags: str
) -> Iterator[Act]:
    module, rest = (words[0], words[1:]) if words else ("", [])
    line, folder = command.line, command.folder
    plain = [inside(joined(folder, word)) for word in rest if not word.startswith("-")]
    if module == "pip" or module in ("uv", "pipx", "pytest", "conda"):
        named = replace(command, argv=(module, *rest))
        yield from _plain_acts(named)
        yield from _of_requirements(named, files)
    elif module in ("zipfile", "tarfile") and any(re.match(r"-[elt]|--(extract|list|test)", word) for word in rest):
        yield from (Act("unpack", path, f"python -m {module} {' '.join(rest)}", line) for path in plain[:1])
    elif module in ("dis", "uncompyle6", "decompyle3", "pydisasm", "pycdc", "xdis"):
        yield from (Act("decode", path, f"python -m {module}", line) for path in plain)
    elif module in ("inspect", "pydoc"):
        yield from (Act("inspect", word, f"python -m {module}", line, flags, folder=folder) for word in rest)
    elif module in ("json.tool", "gzip", "ast", "tokenize", "sqlite3", "pickletools"):
        yield from (Act("read", path, f"python -m {module}", line) for path in plain[:1])
    elif module in ("timeit", "cProfile", "trace", "pdb") and plain:
        yield from _of_python(files.get(plain[-1], rest[-1]), files, nested, folder, flags)
    else:
        source = files.get(inside(joined(folder, module.replace(".", "/") + ".py")), "")
        yield from _of_python(source, files, nested, folder, flags, _given(command, rest))


def _of_python(
    source: str, files: Mapping[str, str], nested: int, folder: str, flags: str = "", given: Given = NOTHING_GIVEN
) -> Iterator[Act]:
    if not source or nested > MAX_NESTED:
        return
    for act in python_acts(source, given):
        if act.verb == "shell":
            yield from _of_text(act.target, files, nested + 1)
            if act.text == "background":
                yield Act("background", act.target.split(" ")[0], act.target, act.line, "start_new_session")
        elif act.verb in _OF_PATHS:
            yield act._replace(target=spelled_out(inside(joined(folder, act.target))), folder=folder)
        elif act.verb == "import":
            yield act._replace(folder=folder, text=flags)
            helper = act.target.partition(".")[0] + ".py"
            if act.detail != "__import__" and (text := files.get(inside(joined(folder, helper)))):
                yield from _of_python(text, files, nested + 1, folder, flags, given)
        elif act.verb == "inspect":
            yield act._replace(folder=folder, text=act.text or flags)
        else:
            yield act._replace(folder=folder)


def patched(patch: str) -> Iterator[tuple[str, str, str, bool]]:
    """Of each file of a patch: its path, the lines put in, the lines taken out, and whether it goes."""
    path, deleted = "", False
    put: list[str] = []
    taken: list[str] = []
    for line in patch.split("\n"):
        found = _PATCH_FILE.match(line)
        if found and not (found["old"] and found["old"] == "/dev/null"):
            starts_new = found["named"] or found["old"] or (found["new"] and not path)
            if starts_new and path:
                yield inside(path), "\n".join(put), "\n".join(taken), deleted
                put, taken = [], []
            if found["new"] == "/dev/null":
                deleted = True
            elif found["named"] or found["new"] or found["old"]:
                path = (found["named"] or found["new"] or found["old"]).strip()
                deleted = found["what"] == "Delete"
        elif line.startswith("+"):
            put.append(line[1:])
        elif line.startswith("-"):
            taken.append(line[1:])
    if path:
        yield inside(path), "\n".join(put), "\n".join(taken), deleted
