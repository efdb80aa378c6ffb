"""README and docs/your-sessions.md, as they stand: from a folder of sessions to figures on turns that were held out.

Sessions are those of `tests/samples/claude_code_mini`, the model is a small random one under the name that the pages
give, and the teachers are a loopback server whose answers are made up here.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
import webbrowser

import pytest
import uvicorn

from composer_replication.pipeline import TURN
from composer_replication.records import Hint, PreferencePair
from composer_replication.runs import Run
from tests.e2e.sentences import random_model
from tests.pages import ROOT, done, merged, settings, verbs, write_toml
from tests.scripted_teachers import ScriptedTeachers, calls

PAGE = "docs/your-sessions.md"
LESS = {"training": {"steps": 1, "traces_per_step": 2, "max_turn_tokens": 8}, "evaluation": {"held_out_sessions": 0.3}}
"""What a small machine is spared; all else is what the page says."""


def answer(request: dict) -> tuple[int, dict]:
    tool = request["tools"][0]["function"] if "tools" in request else {"name": "none", "parameters": {"properties": {}}}
    return 200, calls(request["model"], tool["name"], dict.fromkeys(tool["parameters"]["properties"], "agreed"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a person would type, with a home folder of its own, after the verbs that need neither money nor a model."""
    here = tmp_path_factory.mktemp("sessions")
    shutil.copytree(ROOT / "tests/samples/claude_code_mini", here / "home/.claude/projects/my-project")
    values = tomllib.loads(settings(PAGE)["mine.toml"])
    random_model(here / values["model"]["name"])
    write_toml(here / "mine.toml", merged(values, LESS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(here / "home"))
        patch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
        patch.setattr(webbrowser, "open", lambda address: None)
        for words in verbs(PAGE):
            if words[0] in ("ingest", "sites", "hint", "show", "view"):
                done(words, here)
    return here


def test_the_readme_has_no_command_and_no_setting_that_its_page_lacks():
    of_sessions = [words for words in verbs("README.md") if {"runs/mine", "mine.toml", "smollm2"} & {*words}]
    assert len(of_sessions) == 9 and all(words in verbs(PAGE) for words in of_sessions)
    assert of_sessions[:2] == [["model", "fetch", "smollm2"], ["init", "mine.toml", "--on", "sessions"]]
    assert "mine.toml" not in settings("README.md"), "init writes them"


def test_the_pages_settings_are_those_that_init_writes(tmp_path):
    (words,) = [words for words in verbs(PAGE) if words[0] == "init"]
    done(words, tmp_path, "--gpu-gib", "0")
    written, shown = tomllib.loads((tmp_path / "mine.toml").read_text()), tomllib.loads(settings(PAGE)["mine.toml"])
    assert written["channels"] == shown["channels"]
    assert written["training"]["rollouts"] is shown["training"]["rollouts"] is False
    assert written["training"]["max_turn_tokens"] < shown["training"]["max_turn_tokens"], "smaller on a CPU"
    assert written["model"]["name"] == "smollm2" and ["model", "fetch", "smollm2"] in verbs(PAGE)


def test_there_is_something_to_look_at(folder):
    run = Run.open(folder / "runs/mine")
    assert len(run.stage("hints").read(Hint)) >= 8
    assert (folder / "page/index.html").exists()


def test_training_reads_hints_and_the_held_out_turns_are_measured(folder):
    for words in verbs(PAGE):
        if words[0] in ("train", "evaluate"):
            ended = done(words, folder, *(["--json"] if words[0] == "evaluate" else []))
            assert "channel 1" not in ended.stderr, "the page's config has none"
    run = Run.open(folder / "runs/mine")
    counts = run.stage("training").counts
    assert counts["hinted_sites"] >= 5 and counts["held_out_sessions"] >= 5
    measured = json.loads(ended.stdout)
    assert measured["sessions"] == counts["held_out_sessions"]
    assert {row["measure"] for row in measured["changes"]} >= {"good turns"}
    assert (folder / measured["report"]).read_text().count("recompose show runs/mine ") >= 5
    done(shlex.split(measured["next"])[1:], folder)
    forked = json.loads(done(["fork", "runs/mine", "longer", "--set", f"{TURN}=16", "--json"], folder).stdout)
    assert forked["dropped"] == {"sessions": TURN} and forked["next"] == "recompose evaluate longer --on sessions"


def test_teachers_are_asked_below_the_cap_and_their_votes_become_pairs(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder / "home"))
    here = folder / "asking"
    shutil.copytree(folder / "runs/mine", here / "runs/mine", ignore=shutil.ignore_patterns("training", "sessions"))
    with ScriptedTeachers(answer) as server:
        roster = [f"{name}={server.base_url},{name}/{name}" for name in ("mistral", "openai", "qwen")]
        asking = [word for one in roster for word in ("--teacher", one)]
        for words in verbs(PAGE):
            if words[0] in ("replay", "pair", "cost"):
                if "--dry-run" not in words and "default" in words:
                    place = words.index("--teacher")
                    words = [*words[:place], *asking, *words[place + 2 :]]
                told = done(words, here)
        assert len(server.asked) >= 3
    assert len(Run.open(here / "runs/mine").stage("pairs").read(PreferencePair)) >= 1
    assert json.loads(done(["cost", "runs/mine", "--json"], here).stdout)
    assert "mistral" in told.stdout
