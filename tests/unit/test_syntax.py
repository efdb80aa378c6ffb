"""Trees of Python source: several threads ask for them at once, and all of the environments' code asks here."""

from __future__ import annotations

import ast
import gc
import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from composer_replication import environments, syntax
from composer_replication.environments.code.grading.contradict import function_names

DEEP = "".join(f"def f{depth}():\n    return {'[' * depth}1{']' * depth}\n" for depth in range(1, 60))
ROOT = Path(environments.__file__).parent


@pytest.fixture
def slow_collections():
    """Garbage is collected often, and other threads run while it is: `ast.parse` is then caught half way."""
    here, waited = threading.get_ident(), time.sleep
    before = gc.get_threshold()

    def let_others_run(phase, info):
        if threading.get_ident() == here:
            waited(0.001)

    gc.callbacks.append(let_others_run)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(let_others_run)


@pytest.mark.parametrize("read", [syntax.parse, function_names])
def test_deep_sources_are_read_by_several_threads(slow_collections, read):
    done, raised = threading.Event(), []

    def keep_reading():
        while not done.is_set():
            try:
                read(DEEP)
            except SystemError as error:
                raised.append(error)

    threads = [threading.Thread(target=keep_reading) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            read(DEEP)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert raised == []


@pytest.mark.parametrize("times", [1, syntax.TRIES - 1])
def test_a_source_is_read_again_where_a_thread_of_others_came_between(monkeypatch, times):
    disturbances = iter([SystemError("AST constructor recursion depth mismatch")] * times)
    monkeypatch.setattr(ast, "parse", disturbed(disturbances))
    assert len(syntax.parse(DEEP).body) == 59


def test_a_fault_that_stays_is_told(monkeypatch):
    monkeypatch.setattr(ast, "parse", disturbed(itertools.repeat(SystemError("broken"))))
    with pytest.raises(SystemError, match="broken"):
        syntax.parse("x = 1")


def disturbed(disturbances):
    sound = ast.parse

    def parse(text):
        if error := next(disturbances, None):
            raise error
        return sound(text)

    return parse


def test_a_finalizer_may_parse_while_its_thread_does():
    with syntax._building:
        assert isinstance(syntax.parse("x = 1"), ast.Module)


def test_source_that_is_no_python_is_told():
    with pytest.raises(SyntaxError):
        syntax.parse("def")


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_everything_in_the_environments_parses_here(path):
    if path == Path(syntax.__file__):
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not any(isinstance(node, ast.Attribute) and ast.unparse(node) == "ast.parse" for node in ast.walk(tree))
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "ast"
                for alias in node.names]  # fmt: skip
    assert "parse" not in imported


def test_an_odd_escape_in_a_text_of_others_is_not_told():
    program = "from composer_replication.syntax import parse; parse('x = \"\\\\/\"')"
    said = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True)
    assert "invalid escape" not in said.stderr
