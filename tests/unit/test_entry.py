"""How the command starts: an interrupt is one line from the first import on, and so is a library that is missing."""

import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.hacks.sample_task import write_sample_task
from tests.tiny_repository import FILES, write_files

ROOT = Path(__file__).parents[2]
INTERRUPTED = """
import runpy, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["recompose", "--help"]
"""
WAYS_IN = {
    "python -m": 'runpy.run_module("composer_replication", run_name="__main__")',
    "the script": "from composer_replication.__main__ import main\nmain()",
}


def test_an_interrupt_while_modules_load_is_one_line():
    for way, code in WAYS_IN.items():
        done = subprocess.run([sys.executable, "-c", INTERRUPTED + code], capture_output=True, text=True, check=False)
        said = "error: interrupted; next: run the same command again\n"
        assert (done.returncode, done.stdout, done.stderr) == (130, "", said), way


def test_the_installed_script_enters_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"recompose": "composer_replication.__main__:main"}


HIDING = """
import sys
sys.modules[sys.argv.pop(1)] = None
from composer_replication.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("packaging", ("make", "source", "-o", "tasks")),
        ("packaging", ("verify", "task")),
        ("packaging", ("rollout", "task", "--scripted", "nop", "-o", "run")),
        ("starlette", ("serve", "task", "--port", "0")),
        ("mcp", ("serve", "task", "--port", "0")),
        ("openenv", ("serve", "task", "--port", "0")),
    ],
)
def test_a_missing_library_of_the_environments_names_their_extra(tmp_path, library, words):
    write_files(tmp_path / "source", FILES)
    write_sample_task(tmp_path / "task")
    command = [sys.executable, "-c", HIDING, library, "env", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    said = f"error: {library} is not installed; next: pip install 'composer-replication[env]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, said)
    assert "Traceback" not in done.stderr


def test_a_library_that_is_missing_for_another_reason_is_not_explained_away():
    code = HIDING.replace(
        "sys.modules[sys.argv.pop(1)] = None", "sys.modules['zstandard'] = None; sys.argv[1:] = ['cost', 'x']"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def recompose(*words):
    command = [sys.executable, "-m", "composer_replication", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def help_of(*words):
    return recompose(*words, "--help").stdout


def test_help_shows_defaults_that_say_something():
    shown = " ".join(help_of("env", "make").replace("│", " ").split())
    for default in ("feature_deletion", "L0", "100", "0", "2", "auto"):
        assert f"[default: {default}]" in shown
    for words in (("env", "make"), ("train",), ("env", "serve")):
        shown = " ".join(help_of(*words).replace("│", " ").split())
        assert not [nothing for nothing in ("()", "False", "None") if f"[default: {nothing}]" in shown]
    for words, option in ((("make",), "--seed"), (("serve",), "--port"), (("rollout",), "--temperature")):
        lines = help_of("env", *words).splitlines()
        (line,) = [line for line in lines if f" {option} " in line]
        assert len(line.replace("│", "").split()) > 3, "an option without a word about it"


def test_an_option_that_is_missing_is_named_as_it_can_be_typed():
    for words, said in (
        (("env", "rollout", "x", "--scripted", "nop"), "recompose env rollout needs --run or -o"),
        (("env", "make", "x"), "recompose env make needs --into or -o"),
        (("env", "make", "x", "-o"), 'Command "env make" parameter -o requires an argument'),
    ):
        done = recompose(*words)
        verb = " ".join(words[:2])
        assert (done.returncode, done.stderr) == (2, f"error: {said}; next: recompose {verb} --help\n")
