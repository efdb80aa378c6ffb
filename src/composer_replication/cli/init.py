"""`recompose init [FILE]`"""

from __future__ import annotations

import json as json_module
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, TypeVar, cast, get_args

from cyclopts import Parameter

from composer_replication.config import ModelConfig, parse_config
from composer_replication.errors import UsageError, quoted

from .arguments import Json
from .common import quiet_libraries, say_at_once

Goal = Literal["sessions", "tasks", "toolbox"]
Answer = TypeVar("Answer", str, float)
GIB = 1 << 30
NEXT: dict[Goal, str] = {
    "sessions": "recompose ingest PATH --run runs/mine --config {}",
    "tasks": "recompose env make REPOSITORY -o tasks --mode stub --grain symbol, "
    "then recompose train runs/code --config {}",
    "toolbox": "recompose quickstart --config {}",
}


def init(
    file: Annotated[Path, Parameter(help="TOML file to write; it must not be there.")] = Path("recompose.toml"),
    /,
    *,
    on: Annotated[
        Goal | None, Parameter(help="What to train on: your own sessions, code tasks, or the built-in toolbox.")
    ] = None,
    model: Annotated[str | None, Parameter(help="tiny, smollm2, qwen2.5-coder-1.5b, a folder or a hub id.")] = None,
    gpu_gib: Annotated[float | None, Parameter(help="Memory of the GPU; 0 for a CPU. Found out without it.")] = None,
    json: Json = False,
) -> None:
    """Write a settings file that fits this machine, with a word about each choice.

    On a terminal it asks for what no option says. Elsewhere it takes the toolbox, the GPU that is here, and a model for
    them. Nothing is downloaded, and no file is overwritten.
    """
    if file.exists():
        raise UsageError(f"{file} exists", "recompose init OTHER.toml")
    say_at_once("looking at this machine and the model …", json)
    from composer_replication.training.models.embedded import EMBEDDED, folder_of
    from composer_replication.training.planning.first_settings import Device, first_settings, proposed_model

    goal = on or cast(Goal, _ask("What to train on", "toolbox", get_args(Goal)))
    memory_gib = gpu_gib if gpu_gib is not None else _ask("GiB of the GPU, 0 for a CPU", _gpu_gib())
    if not 0 <= memory_gib <= 1e6:
        raise UsageError(f"{memory_gib:g} GiB is no memory of a GPU", "recompose init --gpu-gib 24")
    machine = Device(memory_gib or _ram_gib(), memory_gib > 0)
    name = model or _ask("Model", proposed_model(goal, machine))
    shape, doubts = None, list[str]()
    if name != "tiny" and find_spec("transformers"):
        quiet_libraries()
        from composer_replication.training.planning.fitting import known_shape

        shape = known_shape(name)
        doubts = _doubts(name) if goal == "sessions" else []
    if name == "tiny" and goal != "toolbox":
        raise UsageError(f"the tiny model has no words for {goal}", f"recompose init --on {goal} --model smollm2")
    found = first_settings(goal, name, machine, shape)
    parse_config(tomllib.loads(found.text), str(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as out:
        out.write(found.text)
    fetch = f"recompose model fetch {name}, then " if name in EMBEDDED and not folder_of(name).exists() else ""
    then = fetch + NEXT[goal].format(quoted(file))
    if json:
        told = {"file": str(file), "on": goal, "model": name, "gpu_gib": memory_gib, "peak_gib": found.peak_gib}
        told["time_s"] = found.time_s
        print(json_module.dumps({**told, "fits": found.fits, "doubts": doubts, "next": then}))
        return
    print(f"{file}: {found.text.splitlines()[0].removeprefix('# ')}")
    for doubt in doubts:
        print(f"Doubtful: {doubt}.")
    print(f"next: {then}")


def _doubts(model: str) -> list[str]:
    """Of a model that lies here; its template is not known before."""
    from composer_replication.training.planning.doubts import NO_TOOLS
    from composer_replication.training.planning.lengths import ByTokenizer, find_chat_tokens

    tokens = find_chat_tokens(ModelConfig(name=model), None, None)
    if tokens is None or ByTokenizer(tokens).knows_tools:
        return []
    return [f"{NO_TOOLS}, so it will not see those of your sessions; --model Qwen/Qwen3-0.6B, say, would"]


def _ask(question: str, proposed: Answer, choices: tuple[str, ...] | None = None) -> Answer:
    """The proposal, where nobody can be asked."""
    if not _on_a_terminal():
        return proposed
    from rich.prompt import FloatPrompt, Prompt

    kind = FloatPrompt if isinstance(proposed, float) else Prompt
    try:
        return cast(Answer, kind.ask(question, default=proposed, choices=list(choices) if choices else None))
    except EOFError:
        raise UsageError("no answer", "recompose init --on toolbox --gpu-gib 0 --model tiny") from None


def _on_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _gpu_gib() -> float:
    """Of the smallest GPU here, by the driver's own tool: torch takes seconds to load."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0.0
    query = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    told = subprocess.run(query, capture_output=True, text=True, check=False).stdout  # noqa: S603
    return min((float(line) / 1024 for line in told.splitlines() if line.strip().isdigit()), default=0.0)


def _ram_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
