"""Runs inside the grading sandbox: starts pytest on trusted tests and reports over what was standard output.

Comes with everything else in one JSON object on standard input, so that no file and no variable tells this run from
one that the agent starts. Writes one line per record. No start-up file of a tree is read. The channel is a pipe that
the grader opened outside; standard output is closed over before any code of the submission is imported. Code of the
submission shares the process and can do all that the process can: the grader trusts no record, see `challenge.py`.
Several orders in one call, each in a process of its own, are for the solution only.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping
from importlib.abc import InspectLoader
from types import ModuleType
from typing import Any

PACKAGE = "recompose_grading"


def main(given: dict[str, Any]) -> None:
    plugin = loaded(given.pop("modules"))
    channel = os.dup(1)
    orders: list[dict[str, Any]] = given.pop("orders")
    tree = os.getcwd()
    roots = [os.path.normpath(os.path.join(tree, root)) for root in given["source_roots"]]
    plugin.Recorder.say(channel, token=given["token"], kind="ready")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    sys.stdin = io.StringIO()
    if len(orders) > 1:
        warm_up(given["preload"])
        keep_compiled()
        compile_ahead(plugin, tree, orders)
        gc.freeze()
    sys.path[:0] = roots
    os.environ["PYTHONPATH"] = os.pathsep.join(roots)
    if len(orders) == 1:
        run(plugin, channel, 0, orders.pop(), given)
    for number, order in enumerate(orders):
        before = exchange(order["edits"])
        child = os.fork()
        if child == 0:
            signal.alarm(given["seconds_per_order"])
            run(plugin, channel, number, order, given)
        os.waitpid(child, 0)
        exchange(before)


def warm_up(names: list[str]) -> None:
    """Load once what each order would load for itself; nothing of the tree can be found yet."""
    from _pytest.config import default_plugins

    for name in (*(f"_pytest.{plugin}" for plugin in default_plugins), "asyncio", *names):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: S112 - an order that needs it will say so
            continue


def compile_ahead(plugin: Any, tree: str, orders: list[dict[str, Any]]) -> None:
    """What orders have in common is compiled once. A text that does not compile fails where it is imported."""
    for order in orders:
        for path in order["files"]:
            try:
                plugin.Recorder.compile_ahead(os.path.join(tree, path), order["texts"][path])
            except (KeyError, SyntaxError, ValueError):
                continue


def keep_compiled() -> None:
    """What one order compiled serves the next; of edited files too, whose time is taken from their content."""
    import tempfile

    sys.dont_write_bytecode = False
    sys.pycache_prefix = tempfile.mkdtemp()


def loaded(texts: Mapping[str, str]) -> Any:
    """The modules of the recorder, by name in the order in which they need each other; the last one is returned. None
    of them can be imported afterwards."""
    package = sys.modules[PACKAGE] = ModuleType(PACKAGE)
    package.__path__ = []
    module = package
    for name, text in texts.items():
        loader = GivenText(text)
        module = sys.modules[f"{PACKAGE}.{name}"] = ModuleType(f"{PACKAGE}.{name}")
        module.__package__ = PACKAGE
        loader.exec_module(module)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    return module


class GivenText(InspectLoader):
    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text


def exchange(edits: Mapping[str, str | None]) -> dict[str, str | None]:
    """Write files of the tree (None: remove); what was there before."""
    from hashlib import sha256

    before: dict[str, str | None] = {}
    for path, text in edits.items():
        before[path] = None
        if os.path.isfile(path):
            with open(path, encoding="utf-8", newline="") as file:
                before[path] = file.read()
            os.unlink(path)
        if text is not None:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            when = int.from_bytes(sha256(text.encode()).digest()[:4], "big") >> 1
            os.utime(path, (when, when))
    return before


def run(plugin: Any, channel: int, number: int, order: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Does not return."""
    import pytest

    tree = os.getcwd()
    texts = {os.path.join(tree, path): text for path, text in order.pop("texts").items()}
    recorder = plugin.Recorder(channel, given["token"], number, order, texts)
    del texts
    options = ["-c", os.devnull, "--rootdir", tree, "--confcutdir", tree]
    options += ["-q", "--tb=no", "--no-header", "--no-summary", "--continue-on-collection-errors"]
    options += [f"-pno:{name}" for name in ("cacheprovider", "stepwise", "junitxml", "pastebin")]
    options += [part for name in given["plugins"] for part in ("-p", name)]
    sys.argv = sys.orig_argv = [str(pytest.__file__), "-q"]
    pytest.main([*options, *order["files"]], plugins=[recorder])
    recorder.end()
    os._exit(0)
