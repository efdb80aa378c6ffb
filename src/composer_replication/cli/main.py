"""The `recompose` command: verbs in pipeline order, each in a module of its own that loads when it is called."""

from __future__ import annotations

import os
import sys

from cyclopts import App, CycloptsError

from composer_replication import __version__
from composer_replication.errors import RecomposeError

VERBS = {
    "quickstart:quickstart": "Run every stage on built-in data and show whether it helped. No key, no GPU.",
    "ingest:ingest": "Read agent session files into a run.",
    "sites:sites": "Find the turns where something went wrong.",
    "stages:hint": "Write a short hint for each error site.",
    "replay:replay": "Ask the teachers what they would have done.",
    "pair:pair": "Turn the teachers' votes into preference pairs.",
    "train:train": "Train with GRPO + SDPO + TR-DPO.",
    "evaluate:evaluate": "Measure held-out success before and after, and write the report.",
    "cost:cost": "Show what a run spent on models, by teacher and outcome.",
    "env:env": "Make verifiable tasks from a repository, check them, serve them and roll a model through them.",
    "monitor:monitor": "Look for reward hacks in the rollouts and sessions of a run.",
    "experiment:experiment": "Run an experiment again.",
    "model:model": "Fetch the weights of embedded models.",
}

TRAINING_LIBRARIES = {"torch", "transformers", "trl", "datasets", "accelerate", "tokenizers", "gguf"}

app = App(
    name="recompose",
    help="From coding-agent traces to a trained, measured policy.",
    version=__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)
for order, (where, summary) in enumerate(VERBS.items()):
    name = where.split(":")[1]
    app.command(f"composer_replication.cli.{where}", name=name, help=summary, sort_key=order)


def main() -> None:
    try:
        app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        reason = " ".join(str(error).split())
        sys.exit(_fail(f"{reason}; next: recompose --help", 2))
    except RecomposeError as error:
        sys.exit(_fail(str(error), error.exit_code))
    except ModuleNotFoundError as error:
        if error.name not in TRAINING_LIBRARIES:
            raise
        sys.exit(_fail(f"{error.name} is not installed; next: pip install 'composer-replication[train]'", 2))
    except OSError as error:
        sys.exit(_fail(f"{error}; next: check the path and its permissions", 1))
    except KeyboardInterrupt:
        code = _fail("interrupted, finished stages are saved; next: run the same command again", 130)
        sys.stderr.flush()
        # Where an interrupt hits code compiled from text, CPython overrides every other exit code with the signal's.
        os._exit(code)


def _fail(text: str, code: int) -> int:
    print(f"error: {text}", file=sys.stderr)
    return code
