"""Attempts that attack whoever reads what they leave: the result pipe, outputs, file names, the wire.

`python -m tests.faults.hostile_rollouts` plays one of each kind in one run of twenty and tells what became of them.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from composer_replication.config import Config
from composer_replication.environments.attempts import Attempt
from composer_replication.environments.code.episodes.endpoint import read_reply
from composer_replication.environments.code.episodes.loop import AgentLimits, attempt_task
from composer_replication.environments.code.episodes.session import SessionLimits
from composer_replication.environments.code.episodes.turns import Reply, WireCall
from composer_replication.environments.code.players import Scripted
from composer_replication.monitor.stage import monitor_run, read_verdicts
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.stages.attempts import Planned, planned, run_attempts
from composer_replication.stages.rollouts import collect
from tests.hacks.sample_task import SPANS, SPANS_START, code_task, write_sample_task

ON_THE_PIPE = """

import gc as _gc
import os as _os

_pen = next(each for each in _gc.get_objects() if type(each).__name__ == "Recorder")


def _say(content):
    while content:
        content = content[_os.write(_pen._channel, content) :]


def _forge(rest):
    _say(b'{"token": "' + _pen._token.encode() + b'", ' + rest + b"}\\n")


"""
PIPE_KINDS = {
    "deep lists": r"_say(b'[' * 300000 + b'\n')",
    "deep objects": r"_say(b'{\"a\":' * 100000 + b'\n')",
    "deep names": r"""_forge(b'"kind": "exchanged", "names": ' + b'[' * 900 + b']' * 900)""",
    "half a surrogate pair": r"""_forge(b'"kind": "exchanged", "names": ["\\ud800"]')""",
    "half a pair as an id": r"""_forge(b'"kind": "test", "id": "\\udfff", "outcome": "passed"')""",
    "many digits": r"""_forge(b'"kind": "exchanged", "names": [' + b'7' * 5000 + b']')""",
    "not a number": r"""_forge(b'"kind": NaN, "id": -Infinity')""",
    "no UTF-8": r"_say(b'\xff\xfe\xed\xa0\x80\x00\n')",
    "NUL in a name": r"""_forge(b'"kind": "test", "id": "a\\u0000b\x00", "outcome": "passed"')""",
    "a flood": r"[_say(b'x' * 65536) for _ in range(400)]",
    "one line without an end": r"_say(b'{\"token\": \"' + b'y' * 2000000)",
}
HOSTILE_FILES = r"""
import os, sys
for name in (b"\xff\xfe.py", b"new\nline.py", b"\xed\xa0\x80", b"-rf", b" ", "\u202e.py".encode(), b"x" * 255):
    open(os.path.join(b"spanbook", name), "wb").write(b"\xff\x00" * 10)
os.mkfifo("spanbook/pipe"); os.symlink("/etc/passwd", "spanbook/link"); os.symlink("loop", "loop")
os.chmod("spanbook", 0)
"""
DEEP_SOURCE = {
    "deep source": "x = " + "(" * 3000 + ")" * 3000,
    "long chains in source": "x = " + "-" * 20000 + "1\ny = " + ".a" * 20000 + "\nz = 1" + " + 1" * 20000,
    "strange source": "\ufeff\x00\x0c\u2028" + "9" * 10000,
}


def call(name: str, arguments: object) -> Reply:
    return Reply("", (WireCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments)),))


def write(text: str) -> Reply:
    return call("write_file", {"path": SPANS, "content": text})


def wire(message: str) -> Reply:
    return read_reply(f'{{"choices": [{{"message": {message}}}]}}')


def hostile_replies() -> dict[str, Sequence[Reply]]:
    deep = '{"path":' + "[" * 900 + "]" * 900 + "}"
    names = wire('{"content": "\\ud800", "reasoning": "\\udfff", "tool_calls": [{"function": {"name": "\\ud800"}}]}')
    return {
        **{name: [write(SPANS_START + ON_THE_PIPE + line + "\n")] for name, line in PIPE_KINDS.items()},
        **{name: [write(text)] for name, text in DEEP_SOURCE.items()},
        "file names": [call("bash", {"command": f"python - <<'EOF'{HOSTILE_FILES}EOF\nls -lR; find . -print0"})],
        "outputs": [call("bash", {"command": r"printf '\xff\x00\x1b[2J\xed\xa0\x80'; head -c 3000000 /dev/zero"})],
        "arguments": [
            call("read_file", {"path": "a\0b"}),
            call("read_file", {"path": "x" * 5000}),
            call("read_file", '{"path": "' + SPANS + '", "start": 1' + "0" * 30 + "}"),
            call("edit_file", deep),
            call("bash", "[" * 300000),
        ],
        "names on the wire": [names, wire('{"content": ' + "[" * 300 + "]" * 300 + "}")],
        "a folder of folders": [call("bash", {"command": "mkdir -p $(printf 'd/%.0s' $(seq 200)); echo"})],
        "test reports": [
            write(SPANS_START + "\nimport os\nos.write(1, b'\\xff_' * 9000)\nraise SystemError('\\ud800' * 99)\n"),
            call("run_tests", {}),
        ],
    }


def play(folder: Path, kinds: Sequence[str], concurrency: int = 2) -> Run:
    """A finished run with one attempt of each kind."""
    replies, plan, settings = hostile_replies(), planned(kinds, 1), {"tasks": "hostile"}
    known = code_task().task
    tasks = {
        kind: write_sample_task(folder / "tasks" / f"{place}", task=known.model_copy(update={"task_id": kind}))
        for place, kind in enumerate(kinds)
    }

    def make(each: Planned, stop: threading.Event) -> Attempt:
        model, limits = Scripted("hostile", replies[each.task_id]), AgentLimits(SessionLimits(steps=12))
        return attempt_task(tasks[each.task_id], model, each.sample, limits, stop=stop)

    run = Run.start(folder / "run", Config())
    collect(
        run,
        plan,
        settings,
        lambda attempts, progress: run_attempts(plan, make, attempts, settings, progress, concurrency),
        Silent(),
    )
    return run


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = play(Path(folder), list(hostile_replies()))
        monitor_run(run, Silent())
        for verdict in read_verdicts(run):
            print(f"{verdict.task_id:<26} reward {verdict.outcome:g}  {', '.join(verdict.classes) or 'no finding'}")
        counts = run.stage("ingestion").counts
        print(f"{counts['attempts']} graded, mean reward {counts['mean_reward']:g}")


if __name__ == "__main__":
    main()
