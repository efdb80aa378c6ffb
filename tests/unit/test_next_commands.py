"""Every command that the program names is one that it has; those that small runs reach are carried out."""

from __future__ import annotations

import ast
import json
import re
import shlex
from importlib.metadata import metadata
from pathlib import Path

import pytest
from cyclopts import CycloptsError, MissingArgumentError

from composer_replication.cli.main import app
from tests.command_line import Ended, recompose
from tests.structure.layers import ROOT, modules
from tests.unit.test_docs import DOCUMENTS

SESSION = Path(__file__).parents[1] / "samples" / "claude_code_mini"
FILLED = {"verb": "run", "how": "", "goal": "sessions", "on": "sessions", "changed": "--set seed=1", "NUMBER": "N"}
"""What stands in braces and is more than one word, or one of a few."""
NO_COMMANDS = ("by recompose ", "install recompose ", "of recompose", "an earlier recompose view")
STARTS = re.compile(r"(?<![\w-])recompose (?=[a-z-])")


def texts(path: Path):
    """Texts of the source that may be printed, with words for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in docstrings or id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value.replace("{}", "X")
        elif isinstance(node, ast.JoinedStr):
            parts = (
                part.value if isinstance(part, ast.Constant) else FILLED.get(ast.unparse(part.value), "X")
                for part in node.values
            )
            yield node.lineno, "".join(parts)


def named_commands():
    for path in modules():
        if "recompose " not in path.read_text(encoding="utf-8"):
            continue  # parsing takes seconds
        for line, text in texts(path):
            if "recompose " in text and not any(one in text for one in NO_COMMANDS):
                begins = [match.end() for match in STARTS.finditer(text)]
                for start, end in zip(begins, [*begins[1:], None], strict=True):
                    mark = "`" if text[:start].endswith("`recompose ") else ""
                    yield f"{path.relative_to(ROOT)}:{line}", mark + re.split(r"[,;`…\n]|\. ", text[start:end])[0]


COMMANDS = sorted(set(named_commands()))


def problem(command: str) -> str | None:
    """Why the command line does not take it. Words of the sentence around it may follow, but no option. In backticks
    a verb may be mentioned without what it needs."""
    words = [word for word in shlex.split(command.removeprefix("`")) if word != "--help"]
    said = ""
    for length in range(len(words), 0, -1):
        if any(word.startswith("-") for word in words[length:]):
            break
        try:
            app.parse_args(words[:length], exit_on_error=False, print_error=False)
            return None
        except MissingArgumentError as error:
            said = "" if command.startswith("`") else str(error)
        except CycloptsError as error:
            said = str(error)
    return said or None


@pytest.mark.parametrize(("where", "command"), COMMANDS, ids=[f"{where} {command}" for where, command in COMMANDS])
def test_a_command_that_is_named_is_one_that_there_is(where, command):
    help_only = "--help" in command
    assert problem(command) is None or (help_only and problem(command.replace("--help", "x -o x")) is None)


def test_there_are_many_and_a_wrong_one_would_be_found():
    assert len(COMMANDS) > 60
    assert problem("env verify X --timeout-s 9") and problem("verify X") and problem("train") and problem("doc tor")
    assert problem("train RUN --dry-run says why") is None


def documented_commands():
    """Of the pages: lines that a person would type, and commands in backticks."""
    for path in (one for one in DOCUMENTS if one.name != "CHANGELOG.md"):
        text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
        fenced = "\n".join(re.findall(r"^```(?:bash|console|text)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
        indented = "\n".join(re.findall(r"^ {4}(\S.*?)(?:   .*)?$", text, re.MULTILINE))
        lines = "\n".join((fenced, indented)).replace("…", "").replace("[RUN ]", "RUN").replace(" && ", "\n")
        for typed in re.findall(r"^(?:\$ )?recompose ([^#|>\n]+?) *(?:[#|>].*)?$", lines, re.MULTILINE):
            yield str(path), re.sub(r"\bN\b", "2", typed)
        for named in re.findall(
            r"`recompose ([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        ):
            yield str(path), "`" + named.replace("…", "")


def test_a_command_on_a_page_is_one_that_there_is():
    found = sorted(set(documented_commands()))
    assert len(found) > 150
    assert [(*one, problem(one[1])) for one in found if problem(one[1])] == []


def next_of(ended: Ended) -> list[str]:
    """The commands of the last `next:` line, each as words without `recompose`."""
    line = re.findall(r"next: (.*)", ended.stdout + ended.stderr)[-1]
    begins = [match.end() for match in STARTS.finditer(line)]
    return [
        re.split(r",? (?:or|then|to) |, ", line[start:end])[0].strip()
        for start, end in zip(begins, [*begins[1:], None], strict=True)
    ]


def test_from_a_wrong_first_step_each_next_line_leads_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def follow(command: str) -> Ended:
        filled = {"PATH": str(SESSION), "DIR": "run", "NEW": "new", "KEY=VALUE": "seed=9", "OTHER.toml": "other.toml"}
        return recompose(*(filled.get(word, word) for word in shlex.split(command)))

    ended = recompose("sites", "run")
    (first,) = next_of(ended)
    assert ended.returncode == 2 and first == "ingest PATH --run DIR"
    assert follow(first).returncode == 0
    ended = recompose("replay", "run")
    trail = []
    while ended.returncode == 2 or "next: " in ended.stdout:
        *_, command = next_of(ended)
        if command in trail or command.startswith("train"):
            break
        trail.append(command)
        ended = follow(command)
    assert trail == ["sites run", "hint run", "replay run", "replay run --no-teachers", "pair run"]
    assert ended.returncode == 0 and next_of(ended) == ["train run"]
    edited = Path("run/config.json").read_text()
    Path("run/config.json").write_text(edited.replace('"seed": 0', '"seed": 1'))
    (fork,) = next_of(recompose("show", "run"))
    Path("run/config.json").write_text(edited)
    assert follow(fork).returncode == 0
    for wrong, expected in (
        (("init", "x.toml", "--gpu-gib", "-1"), 0),
        (("config", "a.toml", "--schema"), 0),
        (("train", "run", "--set", "seed=3"), 2),  # `new` is there
        (("sites", "run", "--score"), 0),
        (("quickstart", "--nope"), 0),
        (("no-such-verb",), 0),
    ):
        ended = recompose(*wrong)
        (command,) = next_of(ended)
        assert ended.returncode == 2 and follow(command).returncode == expected, command


def test_a_run_with_an_environment_alone_is_led_through_training_to_its_measurement(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(
        'channels = [{ name = "grpo" }, { name = "sdpo", source = "rollouts" }]\nwarmup.steps = 1\n'
        "training = { steps = 1, prompts_per_step = 2, group_size = 2 }\nevaluation.tasks = 2\n"
    )
    planned = recompose("train", "runs/own", "--config", "own.toml", "--dry-run")
    assert planned.returncode == 0 and not Path("runs").exists(), "a dry run changes nothing"
    begin, read = next_of(recompose("train", "runs/own"))
    assert next_of(recompose("evaluate", "runs/own")) == [begin, read]
    assert read == "ingest PATH --run DIR"
    trained = recompose(*shlex.split(begin.replace("FILE", "own.toml")))
    measure = ["evaluate runs/own"]
    assert "nothing to learn from" not in trained.stderr, "no channel reads stored traces"
    assert next_of(trained) == next_of(recompose("show", "runs/own")) == measure
    (again,) = next_of(recompose("fork", "runs/own", "new", "--set", "training.learning_rate=1e-5"))
    assert again == "train new" and next_of(recompose("show", "new")) == [again]
    assert recompose(*shlex.split(again)).returncode == recompose(*shlex.split(measure[0])).returncode == 0
    assert "next: " not in recompose("show", "runs/own").stdout
    assert recompose("fork", "runs/own", "fresh", "--set", "warmup.steps=2").returncode == 0
    for run in ("runs/own", "fresh"):  # whose policy the probe has to make
        probed = recompose("evaluate", run, "--probe", "--sites", "2", "--json")
        assert probed.returncode == 0, probed.stderr
        assert json.loads(probed.stdout)["gaps"][0]["sites"] == 2


def test_an_extra_that_is_to_be_installed_is_one_that_there_is():
    named = {extra for path in modules() for extra in re.findall(r"composer-replication\[([\w,]+)\]", path.read_text())}
    assert {"lora"} < named <= set(metadata("composer-replication").get_all("Provides-Extra"))
