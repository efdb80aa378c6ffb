"""Whether a model is on this machine or can be fetched, without loading it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from composer_replication.errors import UsageError

from .embedded import EMBEDDED, folder_of, place_of

PATIENCE, PATIENCE_S = "HF_HUB_ETAG_TIMEOUT", 3.0
"""The hub's own variable, and how long its first answer may take where nobody has set it."""
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


class HubRefusal(UsageError):
    """The hub was reached and does not give the model."""


def refuse_unreachable_hub(name: str) -> None:
    """The libraries would ask again and again, for most of a minute. What a hub that answers refuses, they tell
    themselves: a mirror may have the files and know nothing of models."""
    with suppress(HubRefusal):
        is_on_hub_alone(name)


def is_on_hub_alone(name: str) -> bool:
    """Whether it is to be downloaded; refused where the hub does not give it. Asks the hub once, downloads nothing."""
    if is_here(name):
        return False
    from huggingface_hub import HfApi, constants

    # Of whichever library the installed hub client asks with.
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HTTPError,  # pyright: ignore[reportPrivateImportUsage]
    )

    try:
        HfApi().model_info(name, timeout=float(os.environ.get(PATIENCE, PATIENCE_S)))
    except (HfHubHTTPError, ValueError) as error:
        why = f"the hub does not give it ({type(error).__name__})"
        raise HubRefusal(f"the model {name} is not on this machine, and {why}", REMEDY) from error
    except (HTTPError, OSError) as error:
        raise UsageError(
            f"the model {name} is not on this machine, and the hub cannot be reached at {constants.ENDPOINT}",
            f"{REMEDY}; for a slow hub, export {PATIENCE}=30",
        ) from error
    return True


def is_here(name: str) -> bool:
    return name == "tiny" or Path(place_of(name)).is_dir() or _is_cached(name)


def _is_cached(hub_id: str) -> bool:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(hub_id, "config.json"), str)
    except HFValidationError:
        return False
