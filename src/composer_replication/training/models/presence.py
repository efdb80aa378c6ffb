"""Whether a model is on this machine or can be fetched, without loading it."""

from __future__ import annotations

import os
from pathlib import Path

from composer_replication.errors import UsageError

from .embedded import EMBEDDED, folder_of, place_of

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
REMEDY = (
    "give a folder as model.name, or recompose model fetch NAME: smollm2, qwen2.5-coder-1.5b, or a name of your choice "
    "with --gguf FILE; for a run that has begun, recompose fork RUN NEW --set model.name=NAME"
)


def refuse_missing_model(name: str) -> None:
    if name == "tiny":
        return
    if name in EMBEDDED and not folder_of(name).exists():
        raise UsageError(f"{name} is not in the cache", f"recompose model fetch {name}")
    place = Path(place_of(name))
    if place.is_dir():
        if not (place / "config.json").exists():
            raise UsageError(f"{place} is a folder without a model", "give a folder with config.json and safetensors")
    elif name.startswith(("/", ".", "~")):
        raise UsageError(f"there is no model folder {name}", REMEDY)
    elif (variable := next((one for one in OFFLINE if os.environ.get(one, "0") not in ("", "0")), None)) and not (
        _is_cached(name)
    ):
        raise UsageError(
            f"the model {name} is no folder and not in the cache, and {variable} forbids to fetch it",
            f"unset {variable}, or recompose model fetch smollm2",
        )


def is_on_hub_alone(name: str) -> bool:
    """Whether it is to be downloaded; refused where the hub does not give it. Asks the hub, and downloads nothing."""
    if name == "tiny" or Path(place_of(name)).is_dir() or _is_cached(name):
        return False
    from huggingface_hub import HfApi

    # Of whichever library the installed hub client asks with.
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        HTTPError,  # pyright: ignore[reportPrivateImportUsage]
    )

    try:
        HfApi().model_info(name, timeout=10)
    except (HTTPError, OSError, HFValidationError) as error:
        answered = isinstance(error, HfHubHTTPError | HFValidationError)
        why = f"does not give it ({type(error).__name__})" if answered else "cannot be reached"
        raise UsageError(f"the model {name} is not on this machine, and the hub {why}", REMEDY) from error
    return True


def _is_cached(hub_id: str) -> bool:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(hub_id, "config.json"), str)
    except HFValidationError:
        return False
