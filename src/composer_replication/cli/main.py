"""The `recompose` command: verbs in pipeline order, each in a module of its own that loads when it is called."""

from __future__ import annotations

import atexit
import errno
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import cast

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter

from composer_replication import __version__
from composer_replication.errors import MAKE_ROOM, RecomposeError, Terminated, ToldElsewhereError, UsageError
from composer_replication.training import processes

VERBS = {
    "quickstart:quickstart": "Run every stage on built-in data and show whether it helped. No key, no GPU.",
    "init:init": "Write a settings file that fits this machine and what you want to train on.",
    "ingest:ingest": "Read agent session files into a run.",
    "sites:sites": "Find the turns where something went wrong.",
    "hint:hint": "Write a short hint for each error site.",
    "replay:replay": "Ask the teachers what they would have done.",
    "pair:pair": "Turn the teachers' votes into preference pairs.",
    "train:train": "Train with GRPO + SDPO + TR-DPO.",
    "evaluate:evaluate": "Measure held-out success before and after, and write the report.",
    "show:show": "Show one record, what it came from and what was made of it; or the funnel of a run.",
    "view:view": "Look at runs in a browser, or write a folder that opens without a server.",
    "config:config": "Show every setting and where it comes from; or the schema of a settings file.",
    "doctor:doctor": "Look whether libraries, sandbox, GPU and keys are there.",
    "plan:plan": "Foresee memory, time, dollars and traffic of a training, before anything is rented.",
    "fork:fork": "Begin a new run with other settings, and keep the stages that the change does not touch.",
    "cost:cost": "Show what a run spent on models, by teacher and outcome.",
    "export:export": "Write the records of a run as Parquet tables, to ask questions of.",
    "env:env": "Make verifiable tasks from a repository, check them, serve them and roll a model through them.",
    "monitor:monitor": "Look for reward hacks in the rollouts and sessions of a run.",
    "experiment:experiment": "Run an experiment again.",
    "model:model": "Fetch the weights of embedded models.",
}

EXTRAS = {
    "train": {"torch", "transformers", "trl", "datasets", "accelerate", "tokenizers", "gguf"},
    "diloco": {"torchft"},
    "monarch": {"monarch"},
    "parquet": {"pyarrow"},
    "lora": {"peft"},
    "env": {
        "packaging", "networkx", "openenv", "fastapi", "uvicorn", "starlette", "websockets", "mcp", "fastmcp", "pytest",
        "inotify_simple",
    },
}  # fmt: skip
"""Libraries that only some verbs need, by the extra that brings them."""


def shown_default(value: object) -> str | None:
    """What a flag or a list is when it is not given goes without saying."""
    if value is None or value is False or value == ():
        return None
    return ", ".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)


app = App(
    name="recompose",
    default_parameter=Parameter(show_default=shown_default),
    help="From coding-agent traces to a trained, measured policy.",
    version=__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)
for order, (where, summary) in enumerate(VERBS.items()):
    name = where.split(":")[1]
    app.command(f"composer_replication.cli.{where}", name=name, help=summary, sort_key=order)
app.command(
    "composer_replication.cli.completion:install",
    name="--install-completion",
    help="Let bash, zsh or fish complete verbs and options.",
    sort_key=len(VERBS),
)


PIPE_CLOSED = 141
"""As of other programs: 128 and the number of SIGPIPE."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def main() -> None:
    if processes.number() == 1:  # a launcher of several ends those that hang
        signal.signal(signal.SIGTERM, _end_like_an_interrupt(os.getpid()))
    try:
        _let_verbs_speak(sys.argv[1:])
        _call()
    except CycloptsError as error:
        verb = " ".join(["recompose", *(error.command_chain or ())])
        sys.exit(_fail(f"{_reason(error, verb)}; next: {verb} --help", 2))
    except ToldElsewhereError as error:
        sys.exit(error.exit_code)
    except RecomposeError as error:
        sys.exit(_fail(str(error), error.exit_code))
    except ImportError as error:
        missing = _missing_library(error)
        if missing is None:
            raise
        sys.exit(_fail(missing, 2))
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads(sys.stdout.fileno()):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(PIPE_CLOSED)
        remedy = MAKE_ROOM if error.errno in NO_ROOM else "check the path and its permissions"
        sys.exit(_fail(f"{error}; next: {remedy}", 1))
    except KeyboardInterrupt as error:
        word, code = ("terminated", 143) if isinstance(error, Terminated) else ("interrupted", 130)
        # A stage that keeps its parts says how many.
        saved = error.args[0] if error.args else "finished stages are saved"
        _fail(f"{word}, {saved}; next: run the same command again", code)
        sys.stderr.flush()
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        # Where an interrupt hits code compiled from text, CPython overrides every other exit code with the signal's.
        os._exit(code)


def _end_like_an_interrupt(main_process: int) -> Callable[[int, FrameType | None], None]:
    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != main_process:
            os._exit(128 + number)  # a fork owns none of it
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    return end


def _call() -> None:
    """What is left to be printed is printed here, where a closed pipe can be told from other errors."""
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()


def _reason(error: CycloptsError, verb: str) -> str:
    """In one line; an option that was not given is named in every way that it can be."""
    names = error.argument.names if isinstance(error, MissingArgumentError) and error.argument else ()
    if any(name.startswith("-") for name in names) and not set(names) & set(sys.argv):
        return f"{verb} needs {' or '.join(names)}"
    return " ".join(str(error).split()).removesuffix(".")


def _let_verbs_speak(words: Sequence[str]) -> None:
    """The list of verbs shows summaries, so that nothing is loaded; a verb's own page shows all of its docstring."""
    verb = app
    for word in words:
        if word.startswith("-") or word not in verb:
            return
        verb = verb[word]
        if verb.default_command is not None:
            verb.help = None


def _missing_library(error: BaseException | None) -> str | None:
    """What to install; a library may have put words of its own around the name of the one that is missing."""
    while error is not None:
        library = str(error.name).partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        for extra, libraries in EXTRAS.items():
            if library in libraries:
                return f"{library} is not installed; next: pip install 'composer-replication[{extra}]'"
        error = error.__cause__ or error.__context__
    return None


def _nobody_reads(descriptor: int) -> bool:
    watched = select.poll()
    watched.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))


def _fail(text: str, code: int) -> int:
    speaker = processes.speaker(is_shared=code == UsageError.exit_code)
    if speaker is not None:
        print(f"error: {speaker}{text}", file=sys.stderr)
    return code
