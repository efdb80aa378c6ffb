"""Programs that run other programs: wrappers such as `env` and `timeout`, and those that run one per word, as `xargs`.

Reads resolved words, gives the words of the program inside. What is piped into `xargs` and not known keeps its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..conduct import MANY_FILES, MANY_PROCESSES
from .printing import found_patterns

MAX_LOOP_WORDS = 16
STARTERS = frozenset({"setsid", "daemonize", "disown"})
"""They leave a process behind without an `&`; `nohup` alone waits for its command."""
WRAPPERS: dict[str, int] = {
    "env": 0, "timeout": 1, "nice": 0, "ionice": 0, "nohup": 0, "setsid": 0, "sudo": 0, "doas": 0, "command": 0,
    "builtin": 0, "exec": 0, "stdbuf": 0, "time": 0, "busybox": 0, "flock": 1, "chronic": 0, "unbuffer": 0,
    "xvfb-run": 0,
    "daemonize": 0, "caffeinate": 0,
}  # fmt: skip
"""Programs that run another one, and how many of their own words come first besides options."""
_VALUED_OPTIONS = {
    "timeout": ("-s", "-k", "--signal", "--kill-after"), "nice": ("-n",), "ionice": ("-c", "-n", "-p"),
    "sudo": ("-u", "-g", "-C", "-h"), "env": ("-u", "-C", "--chdir", "--unset"), "stdbuf": (), "exec": ("-a",),
}  # fmt: skip
KEEPS_AND_RUNS = frozenset({"unshare", "nsenter", "chroot", "strace", "ltrace", "bwrap", "firejail", "proot"})
_TURNS = re.compile(
    r"\bseq\s+(?:-\S+\s+)*(?:-?\d+\s+){0,2}(\d{1,9})|\{-?\d+\.\.(\d{1,9})|\w<=?\s*(\d{1,9})|\s(?:<=?|-l[te])\s+(\d{1,9})"
)
_LOOP_VARIABLE = re.compile(r"(?:for\s+|\(\(\s*|\$\{?)([A-Za-z_]\w*)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)


def inner_argv(name: str, rest: list[str], own: dict[str, str]) -> list[str]:
    """What a wrapper runs; variables that it sets are added to `own`."""
    own_words = WRAPPERS[name]
    valued = _VALUED_OPTIONS.get(name, ())
    while rest:
        if rest[0] == "--":
            return rest[1:]
        if name == "env" and rest[0] in ("-S", "--split-string") and len(rest) > 1:
            return [*rest[1].split(), *rest[2:]]
        if rest[0].startswith("-") and len(rest[0]) > 1:
            rest = rest[2:] if rest[0] in valued else rest[1:]
        elif name in ("env", "sudo") and (found := _ASSIGNMENT.fullmatch(rest[0])):
            own[found[1]] = found[2]
            rest = rest[1:]
        elif own_words:
            own_words -= 1
            rest = rest[1:]
        else:
            break
    return rest


def flooded(loop: str, background: bool, ran: list[str]) -> str:
    """`processes` or `files` where a loop of very many turns starts or makes one in each; `ran` are its commands."""
    head = re.split(r"\bdo\b", loop, maxsplit=1)[0]
    turns = max((int(next(filter(None, found.groups()))) for found in _TURNS.finditer(head)), default=0)
    variable = _LOOP_VARIABLE.search(head)
    if background and turns >= MANY_PROCESSES:
        return "processes"
    if variable is None or turns < MANY_FILES:
        return ""
    own = rf"\S*\$\{{?{variable[1]}\b"
    makes = re.compile(rf"(?<!>)>\s*{own}|\b(?:touch|mkdir|truncate|fallocate|mktemp)\b.*{own}")
    return "files" if any(makes.search(line) for line in ran) else ""


def inner_commands(name: str, argv: list[str], given: str | None, feeder: str) -> Iterator[list[str]]:
    """Commands that a program runs with words it finds or is given; `feeder` is the text of what pipes into it."""
    if name in ("xargs", "parallel"):
        yield from _for_xargs(argv, given, feeder)
    elif name in ("find", "fd", "fdfind"):
        yield from _for_find(argv)
    elif name == "script" and "-c" in argv[:-1]:
        yield ["bash", "-c", argv[argv.index("-c") + 1]]
    elif name in ("trap", "watch") and len(argv) > 1:
        yield ["bash", "-c", next((word for word in argv[1:] if not word.startswith("-")), "")]
    elif name == "coproc" and len(argv) > 1:
        yield argv[1:]


def _for_xargs(argv: list[str], given: str | None, feeder: str) -> Iterator[list[str]]:
    rest, holder = argv[1:], ""
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option.startswith("-I"):
            holder = option[2:] or (rest.pop(0) if rest else "{}")
        elif option in ("-n", "-P", "-L", "-d", "-a", "-s", "-E", "-j") and rest:
            rest.pop(0)
    words = given.split()[:MAX_LOOP_WORDS] if given is not None else [f"$({feeder})"]
    if not rest:
        return
    if holder or "{}" in rest:
        mark = holder or "{}"
        for value in words:
            yield [word.replace(mark, value) for word in rest]
    else:
        yield [*rest, *words]


def _for_find(argv: list[str]) -> Iterator[list[str]]:
    patterns = found_patterns(argv[1:])
    at = 0
    while at < len(argv):
        if argv[at] in ("-exec", "-execdir", "-ok", "-okdir", "-x", "--exec"):
            end = next((place for place in range(at, len(argv)) if argv[place] in (";", "+")), len(argv))
            inner = argv[at + 1 : end]
            if any(word == "{}" for word in inner):
                yield [value for word in inner for value in (patterns if word == "{}" else [word])]
            elif inner:
                yield [word.replace("{}", patterns[0]) for word in inner]
            at = end
        at += 1
