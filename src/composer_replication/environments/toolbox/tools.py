"""The 24 tools of the toolbox: what each does, how a request words it, under which names it may appear.

A tool is listed in an episode under one of its names, `verb_noun` with any of its verbs and nouns. The first verb with
the first noun is the base name, the one that old logs use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class World:
    """Mutable state; two worlds are equal when `files` (path -> text) and `keys` (name -> number) are."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    keys: dict[str, int] = field(default_factory=dict[str, int])

    def copy(self) -> World:
        return World(dict(self.files), dict(self.keys))

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(f"no file {path}")
        return self.files[path]

    def get(self, key: str) -> int:
        if key not in self.keys:
            raise KeyError(f"no key {key}")
        return self.keys[key]

    def create(self, path: str, text: str) -> None:
        if path in self.files:
            raise FileExistsError(f"{path} exists")
        self.files[path] = text

    def remove(self, path: str) -> str:
        text = self.read(path)
        del self.files[path]
        return text


Kind = Literal["path", "new_path", "key", "new_key", "word", "int"]
Value = str | int
Arguments = Mapping[str, Value]

FILE_NOUNS = ("file", "doc", "page", "asset", "blob", "sheet")
KEY_NOUNS = ("key", "setting", "entry", "field", "option", "variable")
NUMBER_NOUNS = ("numbers", "ints", "values", "terms", "operands", "amounts")
FLAG_NOUNS = ("flag", "switch", "toggle", "feature", "gate", "knob")


@dataclass(frozen=True)
class Tool:
    """`phrases` word a request with one slot per parameter, in parameter order."""

    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    params: Mapping[str, Kind]
    run: Callable[[World, Arguments], Value | None]
    phrases: tuple[str, ...]
    returns: Literal["int", "word"] | None = None

    @property
    def name(self) -> str:
        return f"{self.verbs[0]}_{self.nouns[0]}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every name the tool may be listed under; the base name first."""
        return tuple(f"{verb}_{noun}" for verb in self.verbs for noun in self.nouns)


def _text(arguments: Arguments, name: str) -> str:
    return str(arguments[name])


def _number(arguments: Arguments, name: str) -> int:
    return int(arguments[name])


def _write(world: World, a: Arguments) -> None:
    world.files[_text(a, "path")] = _text(a, "text")


def _append(world: World, a: Arguments) -> None:
    path = _text(a, "path")
    world.files[path] = f"{world.read(path)} {a['text']}".strip()


def _delete(world: World, a: Arguments) -> None:
    world.remove(_text(a, "path"))


def _move(world: World, a: Arguments) -> None:
    world.create(_text(a, "target"), world.read(_text(a, "source")))
    world.remove(_text(a, "source"))


def _replace(world: World, a: Arguments) -> None:
    path, old = _text(a, "path"), _text(a, "old")
    words = world.read(path).split()
    if old not in words:
        raise ValueError(f"no {old} in {path}")
    world.files[path] = " ".join(_text(a, "new") if word == old else word for word in words)


def _first_word(world: World, a: Arguments) -> str:
    words = world.read(_text(a, "path")).split()
    if not words:
        raise ValueError(f"{a['path']} is empty")
    return words[0]


def _set(world: World, a: Arguments) -> None:
    world.keys[_text(a, "key")] = _number(a, "value")


def _drop_key(world: World, a: Arguments) -> None:
    world.get(_text(a, "key"))
    del world.keys[_text(a, "key")]


def _update_key(world: World, a: Arguments, change: Callable[[int], int]) -> None:
    key = _text(a, "key")
    world.keys[key] = change(world.get(key))


def _copy_key(world: World, a: Arguments) -> None:
    world.keys[_text(a, "target")] = world.get(_text(a, "source"))


def _swap_keys(world: World, a: Arguments) -> None:
    first, second = _text(a, "first"), _text(a, "second")
    world.keys[first], world.keys[second] = world.get(second), world.get(first)


def _set_flag(world: World, a: Arguments, value: int) -> None:
    world.keys[_text(a, "flag")] = value


# fmt: off
TOOLS: tuple[Tool, ...] = (
    Tool(("read", "open", "load"), FILE_NOUNS, {"path": "path"}, lambda w, a: w.read(_text(a, "path")),
         ("read {0}", "take the text of {0}"), "word"),
    Tool(("peek", "head", "start"), FILE_NOUNS, {"path": "path"}, _first_word,
         ("take the first word of {0}", "see how {0} starts"), "word"),
    Tool(("count", "tally", "measure"), FILE_NOUNS, {"path": "path"},
         lambda w, a: len(w.read(_text(a, "path")).split()),
         ("count the words in {0}", "measure how long {0} is"), "int"),
    Tool(("write", "save", "fill"), FILE_NOUNS, {"path": "new_path", "text": "word"}, _write,
         ("write {1} to {0}", "fill {0} with {1}")),
    Tool(("append", "extend", "grow"), FILE_NOUNS, {"path": "path", "text": "word"}, _append,
         ("append {1} to {0}", "extend {0} with {1}")),
    Tool(("delete", "remove", "erase"), FILE_NOUNS, {"path": "path"}, _delete,
         ("delete {0}", "remove the file {0}")),
    Tool(("copy", "clone", "duplicate"), FILE_NOUNS, {"source": "path", "target": "new_path"},
         lambda w, a: w.create(_text(a, "target"), w.read(_text(a, "source"))),
         ("copy {0} as {1}", "clone {0} into {1}")),
    Tool(("move", "rename", "shift"), FILE_NOUNS, {"source": "path", "target": "new_path"}, _move,
         ("move {0} to {1}", "rename {0} as {1}")),
    Tool(("replace", "edit", "change"), FILE_NOUNS, {"path": "path", "old": "word", "new": "word"}, _replace,
         ("in {0} replace {1} by {2}", "edit {0} so that {1} is {2}")),
    Tool(("touch", "create", "make"), FILE_NOUNS, {"path": "new_path"}, lambda w, a: w.create(_text(a, "path"), ""),
         ("create an empty {0}", "touch {0}")),
    Tool(("get", "fetch", "query"), KEY_NOUNS, {"key": "key"}, lambda w, a: w.get(_text(a, "key")),
         ("get {0}", "fetch the value of {0}"), "int"),
    Tool(("set", "put", "assign"), KEY_NOUNS, {"key": "new_key", "value": "int"}, _set,
         ("set {0} to {1}", "put {1} in {0}")),
    Tool(("drop", "unset", "discard"), KEY_NOUNS, {"key": "key"}, _drop_key,
         ("drop {0}", "unset the key {0}")),
    Tool(("raise", "bump", "increase"), KEY_NOUNS, {"key": "key", "amount": "int"},
         lambda w, a: _update_key(w, a, lambda old: old + _number(a, "amount")),
         ("raise {0} by {1}", "bump {0} up by {1}")),
    Tool(("scale", "stretch", "boost"), KEY_NOUNS, {"key": "key", "factor": "int"},
         lambda w, a: _update_key(w, a, lambda old: old * _number(a, "factor")),
         ("scale {0} by {1}", "boost {0} by a factor of {1}")),
    Tool(("mirror", "sync", "link"), KEY_NOUNS, {"source": "key", "target": "new_key"}, _copy_key,
         ("mirror {0} into {1}", "sync {0} with {1}")),
    Tool(("swap", "exchange", "trade"), KEY_NOUNS, {"first": "key", "second": "key"}, _swap_keys,
         ("swap {0} and {1}", "exchange {0} with {1}")),
    Tool(("reset", "zero", "clear"), KEY_NOUNS, {"key": "key"}, lambda w, a: _update_key(w, a, lambda old: 0),
         ("reset {0}", "clear the key {0}")),
    Tool(("add", "sum", "plus"), NUMBER_NOUNS, {"a": "int", "b": "int"},
         lambda w, a: _number(a, "a") + _number(a, "b"), ("add {0} and {1}", "sum {0} and {1}"), "int"),
    Tool(("subtract", "minus", "lessen"), NUMBER_NOUNS, {"a": "int", "b": "int"},
         lambda w, a: _number(a, "a") - _number(a, "b"), ("from {0} subtract {1}", "work out {0} minus {1}"), "int"),
    Tool(("multiply", "times", "product"), NUMBER_NOUNS, {"a": "int", "b": "int"},
         lambda w, a: _number(a, "a") * _number(a, "b"), ("multiply {0} and {1}", "work out {0} times {1}"), "int"),
    Tool(("max", "larger", "top"), NUMBER_NOUNS, {"a": "int", "b": "int"},
         lambda w, a: max(_number(a, "a"), _number(a, "b")),
         ("find the larger of {0} and {1}", "take the max of {0} and {1}"), "int"),
    Tool(("enable", "activate", "allow"), FLAG_NOUNS, {"flag": "new_key"}, lambda w, a: _set_flag(w, a, 1),
         ("enable {0}", "activate {0}")),
    Tool(("disable", "deactivate", "forbid"), FLAG_NOUNS, {"flag": "new_key"}, lambda w, a: _set_flag(w, a, 0),
         ("disable {0}", "deactivate {0}")),
)
# fmt: on

BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}
