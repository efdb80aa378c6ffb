"""A new run that begins with finished stages of another one.

Files that are never written again once they are there (records, weights) are linked, so gigabytes are not copied; they
stay when the other run is deleted or goes on. All others are copied.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from composer_replication.config import Config
from composer_replication.errors import UsageError, quoted
from composer_replication.llm.ledger import Inherited, inherit
from composer_replication.runs import NEXT_COMMAND, Run
from composer_replication.settings import differences
from composer_replication.store import UNFINISHED, kept_shards

LEDGER = "ledger.sqlite"
HOW_MUCH = ["evaluation.tasks"]
"""The settings that change no value of a turn of sessions, only how many are measured."""
REPLACED_WHOLE = (".zst", ".safetensors")
"""Files that a stage which is done again puts in place of those that are there."""
PASSING = (UNFINISHED, "checkpoint-*", ".*")


def fork(
    run: Run,
    path: Path,
    config: Config,
    keep: Iterable[str],
    changes: Sequence[str],
    more: Mapping[str, str] | None = None,
) -> Inherited:
    """The folder appears whole or not at all. Tells the inherited answers. `more` is what else its manifest
    says of its origin."""
    if path.exists():
        raise UsageError(f"{path} exists", "choose another folder for the new run")
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        origin = {"run": str(run.path), "config_hash": run.config.hash, "changes": list(changes), **(more or {})}
        Run.start(building, config, {"forked_from": origin})
        for noun in keep:
            shutil.copytree(
                run.stage(noun).path,
                building / noun,
                copy_function=_link_or_copy,
                ignore=shutil.ignore_patterns(*PASSING),
            )
        if measured_passes(run) and differences(run.config, config) == HOW_MUCH:
            shutil.copytree(
                run.stage("sessions").path, building / "sessions", ignore=shutil.ignore_patterns("manifest.json")
            )
        answers = inherit(run.path / LEDGER, building / LEDGER) if (run.path / LEDGER).exists() else Inherited(0, 0)
        building.rename(path)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return answers


def fork_at(run: Run, checkpoint: Path) -> Run:
    """The run up to its training, to end that at the checkpoint; the one beside it, where it was made of the same
    weights before."""
    whole = run.path.resolve()
    path, weights = whole.with_name(f"{whole.name}-{checkpoint.name}"), _digest_of_weights(checkpoint)
    if not path.exists():
        before_training = takewhile(lambda noun: noun != "training", NEXT_COMMAND)
        earlier = [noun for noun in before_training if run.stage(noun).is_done]
        fork(run, path, run.config, earlier, [checkpoint.name], {"weights": weights})
    ended = Run.start(path, run.config)
    made_of = ended.origin.get("forked_from", {}).get("weights")
    if made_of != weights:
        why = f"{checkpoint} holds other weights than it was made of" if made_of else "it does not say of what weights"
        raise UsageError(
            f"{path} may be of another training: {why}",
            f"move {quoted(path)} elsewhere or delete it, then run the same command",
        )
    return ended


def _digest_of_weights(checkpoint: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(checkpoint.glob("*.safetensors")):
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def measured_passes(run: Run) -> int:
    """Over turns of held-out sessions, also where that measurement was stopped."""
    return len(kept_shards(run.stage("sessions").path))


def _link_or_copy(source: str, target: str) -> str:
    if source.endswith(REPLACED_WHOLE):
        try:
            os.link(source, target)
            return target
        except OSError:  # another disk, or one without links
            pass
    return shutil.copy2(source, target)
