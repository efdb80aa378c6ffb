"""Harbor tasks of others: played in our sandbox, judged by their own tests, or refused by name.

The tasks are written here in the format of Harbor's documentation; `RECOMPOSE_HARBOR_TASKS` names folders of public
ones, which are then solved by their own solution, unedited.
"""

from __future__ import annotations

import json
import os
import textwrap
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from composer_replication.config import Config
from composer_replication.environments.code.sandbox.interface import ExecResult
from composer_replication.environments.harbor import sandboxes
from composer_replication.environments.harbor.dockerfile import Refused, read_dockerfile
from composer_replication.environments.harbor.folder import read_folder
from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError

DOCKERFILE = """\
FROM python:3.13-slim
# the packages
RUN pip install --no-cache-dir pytest==8.4.1 \\
    pytest-json-ctrf==0.3.5
RUN mkdir -p /app/out
COPY --chown=1000:1000 numbers.txt /app
COPY tools /app/tools/
WORKDIR /app
ENV UNIT=metre
"""
TEST_SH = """\
#!/bin/bash
set -e
pip3 install --quiet pytest==8.4.1 > /dev/null 2>&1 || exit 3
set +e
pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
TEST_OUTPUTS = """\
import os, subprocess
from pathlib import Path
from types import SimpleNamespace

def test_total():
    assert Path("/app/out/total.txt").read_text().strip() == "42 metre"
    assert os.environ["UNIT"] == "metre" and not Path("/app/numbers.txt").exists()

def test_script_runs():
    assert subprocess.run(["/app/again.sh"], capture_output=True, text=True).stdout == "42\\n"
"""
SOLVE_SH = """\
#!/bin/bash
python3 /app/tools/total.py > /app/out/total.txt
printf '#!/bin/sh\\necho 42\\n' > again.sh
rm /app/numbers.txt
"""
TASK_TOML = """\
version = "1.0"
[metadata]
difficulty = "easy"
category = "programming"
[verifier]
timeout_sec = 60.0
[agent]
timeout_sec = 60.0
[environment]
allow_internet = true
gpus = 0
mcp_servers = []
"""
TOTAL = 'import os\nprint(sum(map(int, open("/app/numbers.txt"))), os.environ["UNIT"])\n'


def write_task(folder, **replaced):
    files = {
        "instruction.md": "Write the sum of /app/numbers.txt and its unit to /app/out/total.txt.\n",
        "task.toml": TASK_TOML,
        "environment/Dockerfile": DOCKERFILE,
        "environment/numbers.txt": "40\n2\n",
        "environment/tools/total.py": TOTAL,
        "tests/test.sh": TEST_SH,
        "tests/test_outputs.py": TEST_OUTPUTS,
        "solution/solve.sh": SOLVE_SH,
        **replaced,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (folder / name).write_text(text)
    return folder


@contextmanager
def opened(*folders, max_steps=8, **settings):
    section = {"name": "harbor", "tasks": [str(f) for f in folders], "max_steps": max_steps, "settings": settings}
    with open_environment(Config.model_validate({"environment": section})) as environment:
        yield environment


def only_task(environment):
    (task,) = (*environment.tasks("train"), *environment.tasks("heldout"))
    return task


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_a_scripted_policy_solves_a_task_whose_own_solution_was_checked(tmp_path):
    with opened(write_task(tmp_path / "sum")) as environment:
        task = only_task(environment)
        assert task.messages[-1]["content"].startswith("Write the sum") and "/app" in task.messages[0]["content"]
        assert task.labels == {"difficulty": "easy", "category": "programming", "folder": "sum"}
        episode = environment.start(task)
        assert episode.step("<tool_call>nothing").failed
        assert episode.step("I think.").failed
        assert episode.step(call("bash", command="ls /tests /solution")).failed
        assert "40" in episode.step(call("read_file", path="/app/numbers.txt")).observation
        assert episode.step(call("bash", command="pwd; ls; python3 tools/total.py > out/total.txt")).observation == (
            "/app\nnumbers.txt\nout\ntools"
        )
        script = call("write_file", path="/app/again.sh", content="#!/bin/sh\necho 42\n")
        episode.step(script + call("bash", command="rm numbers.txt") + call("submit"))
        assert episode.finished and episode.reward == 1.0
        trace = episode.trace("some/model", 0)
        failed = [trace.messages[turn.end - 1].get("is_error", False) for turn in trace.turns]
        assert (failed, trace.outcome) == ([True, True, True, False, False, False], 1.0)
        assert set(episode.evidence.written) == {"out/total.txt", "again.sh"}
        assert episode.evidence.removed == ("numbers.txt",)
        episode.close()
        episode.close()


def test_a_conversation_goes_on_where_it_was(tmp_path):
    with opened(write_task(tmp_path / "sum"), check_solutions=False) as environment:
        first = environment.start(only_task(environment))
        first.step("Now." + call("bash", command="python3 tools/total.py > out/total.txt; rm numbers.txt"))
        reached = first.trace("some/model", 0).messages
        again = environment.resume(first.task.task_id, reached)
        again.step(call("write_file", path="again.sh", content="#!/bin/sh\necho 42\n") + call("submit"))
        assert (first.reward, again.reward) == (0.0, 1.0)
        assert again.trace("some/model", 0).messages[: len(reached)] == reached
        first.close()
        again.close()


def test_an_attempt_that_stops_is_judged_as_it_stands(tmp_path):
    partly = '{"reward": 0.25}'
    script = f"#!/bin/bash\nmkdir -p /logs/verifier\n[ -f out/a ] && echo '{partly}' > /logs/verifier/reward.json\n"
    folder = write_task(tmp_path / "sum", **{"tests/test.sh": script, "solution/solve.sh": None})
    with opened(folder, max_steps=2) as environment:
        task = only_task(environment)
        nothing, something = environment.start(task), environment.start(task)
        nothing.step(call("bash", command="ls"))
        assert not nothing.finished and nothing.reward == 0.0
        assert "wrote no reward" in nothing.evidence.grade.notes[0]
        something.step(call("write_file", path="out/a", content=""))
        something.step("no call")
        assert something.finished and something.reward == 0.25
        for episode in (nothing, something):
            episode.close()


def test_ids_are_stable_and_splits_disjoint(tmp_path):
    for number in range(12):
        write_task(tmp_path / f"task-{number}", **{"instruction.md": f"Do {number}."})
    sides = []
    for _ in range(2):
        with opened(tmp_path, check_solutions=False) as environment:
            sides.append([[task.task_id for task in environment.tasks(split)] for split in ("train", "heldout")])
            with pytest.raises(LookupError):
                environment.task("task-99")
    train, heldout = sides[0]
    assert sides[0] == sides[1] and train and heldout
    assert not set(train) & set(heldout) and len(train) + len(heldout) == 12


def test_a_task_whose_solution_does_not_work_here_is_refused(tmp_path):
    solution = "#!/bin/bash\necho 42 > ~/elsewhere\n"
    folder = write_task(tmp_path / "sum", **{"solution/solve.sh": solution})
    with pytest.raises(UsageError, match="sum: its own solution gets the reward 0 here"), opened(folder):
        pass


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("environment/Dockerfile", "FROM ubuntu:24.04\nWORKDIR /app\n", "image ubuntu:24.04"),
        ("environment/Dockerfile", "FROM python:3.13\nFROM python:3.12\nWORKDIR /app\n", "image python:3.12"),
        ("environment/Dockerfile", "FROM python:3.13\nRUN apt-get update\nWORKDIR /app\n", "runs apt-get update"),
        (
            "environment/Dockerfile",
            "FROM python:3.13\nRUN pip install no-such-package\nWORKDIR /a\n",
            "no-such-package",
        ),
        ("environment/Dockerfile", "FROM python:3.13\nRUN pip install pydantic==1.0\nWORKDIR /a\n", "pydantic==1.0; 2"),
        (
            "environment/Dockerfile",
            "FROM python:3.13\nCOPY numbers.txt /opt/\nWORKDIR /app\n",
            "outside of its WORKDIR",
        ),
        ("environment/Dockerfile", "FROM python:3.13\nWORKDIR /app\nCOPY numbers.txt ../x\n", "outside of its WORKDIR"),
        ("environment/Dockerfile", "FROM python:3.13\n", "WORKDIR is /"),
        ("environment/Dockerfile", "FROM python:3.13\nWORKDIR /app\nUSER nobody\n", "has USER"),
        ("environment/Dockerfile", "FROM python:3.13\nWORKDIR /app\nCOPY --from=x a b\n", "COPY --from"),
        ("environment/Dockerfile", "FROM python:3.13\nARG X=1\nWORKDIR /$X\n", "variable in WORKDIR"),
        ("environment/Dockerfile", "FROM python:3.13\nWORKDIR /app\nCOPY ../tests /app/\n", "not its own"),
        ("environment/.dockerignore", "numbers.txt", "dockerignore"),
        ("environment/docker-compose.yaml", "services: {}", "several containers"),
        ("task.toml", "[environment]\ngpus = 1\n", "gpus = 1"),
        ("task.toml", '[verifier.env]\nKEY = "${KEY}"\n', "wants KEY"),
        ("task.toml", "[[steps]]\nname = 'a'\n", "several steps"),
        ("task.toml", "no toml", "damaged"),
        ("tests/test.sh", "#!/bin/bash\n# curl\napt-get install -y curl\n", "runs apt-get"),
        ("tests/test.sh", "uvx pytest /tests\n", "runs uvx"),
        ("tests/test.sh", "pip install -q no-such-package 2>/dev/null || true\n", "no-such-package"),
        ("tests/test.sh", "python3 -m pip install pytest\n", "runs -m pip"),
    ],
)
def test_what_needs_more_than_python_is_refused_by_name(tmp_path, name, text, reason):
    write_task(tmp_path / "odd", **{name: text})
    with pytest.raises(Refused, match=reason):
        read_folder(tmp_path / "odd")


def test_refused_tasks_are_named_and_may_be_skipped(tmp_path):
    write_task(tmp_path / "good")
    write_task(tmp_path / "odd", **{"environment/Dockerfile": "FROM ubuntu:24.04\n"})
    reason = r"1 of 2 tasks .*odd: it starts from the image ubuntu"
    with pytest.raises(UsageError, match=reason), opened(tmp_path, check_solutions=False):
        pass
    with opened(tmp_path, check_solutions=False, skip_refused=True) as environment:
        assert only_task(environment).labels["folder"] == "good" and list(environment.refused) == [
            str(tmp_path / "odd")
        ]
    with pytest.raises(UsageError, match="no Harbor tasks"), opened(tmp_path / "nothing"):
        pass


def test_copies_land_where_docker_puts_them(tmp_path):
    for name in ("one.txt", "two.txt", "data/three.txt", "data/deep/four.txt"):
        (tmp_path / "context" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "context" / name).write_text(name)
    (tmp_path / "context" / "requirements.txt").write_text("pytest  # any\n")
    (tmp_path / "context" / "Dockerfile").write_text(
        textwrap.dedent("""\
        FROM python:3.13-slim AS base
        WORKDIR /srv/app
        COPY one.txt renamed.txt
        COPY *.txt texts/
        COPY data .
        COPY requirements.txt .
        RUN python -m pip install -r requirements.txt && mkdir -p empty
        ENV A=1 B="two words"
        CMD ["sleep"]
        """)
    )
    image = read_dockerfile(tmp_path / "context")
    image.write(tmp_path / "tree")
    files = {str(path.relative_to(tmp_path / "tree")): path for path in (tmp_path / "tree").rglob("*")}
    assert {name for name, path in files.items() if path.is_file()} == {
        "renamed.txt", "texts/one.txt", "texts/two.txt", "texts/requirements.txt", "three.txt", "deep/four.txt",
        "requirements.txt",
    }  # fmt: skip
    assert files["empty"].is_dir() and files["renamed.txt"].read_text() == "one.txt"
    assert (image.workdir, image.env) == ("/srv/app", {"A": "1", "B": "two words"})
    assert image.distributions == ["pytest"]


@pytest.mark.skipif("RECOMPOSE_HARBOR_TASKS" not in os.environ, reason="no folder of public tasks was named")
def test_public_tasks_are_solved_by_their_own_solutions():
    folders = [Path(name) for name in os.environ["RECOMPOSE_HARBOR_TASKS"].split(os.pathsep)]
    with opened(*folders, skip_refused=True) as environment:
        tasks = [*environment.tasks("train"), *environment.tasks("heldout")]
        assert tasks
        for task in tasks:
            solution = task.sandboxes.solve(task.folder(), "auto")
            episode = environment.start(task)
            for path, content in solution.written.items():
                episode.step(call("write_file", path=path, content=content.decode()))
            episode.step(call("submit"))
            assert episode.finished and episode.reward == 1.0
            untouched = environment.start(task)
            untouched.step(call("submit"))
            assert untouched.reward < 1.0
            episode.close()
            untouched.close()


@pytest.mark.parametrize(
    "text, told",
    [
        (b"nan", b""), (b"1e999", b""), (b"\xff", b""), (b"9" * 5000, b""), (None, b"[" * 300_000), (None, b"[0.5]"),
        (None, b"{}"), (None, b'{"reward": "\\ud800"}'), (None, b'{"a": 1, "b": 1}'), (None, b'{"reward": [1]}'),
    ],
)  # fmt: skip
def test_a_verifier_that_writes_nonsense_gives_no_reward(text, told):
    """It runs next to the agent's files, so the agent may have written it."""
    files = {"reward.txt": text, "reward.json": told}

    def cat(argv):
        content = files[argv[1].rpartition("/")[2]]
        return ExecResult(0 if content is not None else 1, content or b"", b"", "exited", 0.0)

    assert sandboxes._reward(SimpleNamespace(exec=cat)) is None
