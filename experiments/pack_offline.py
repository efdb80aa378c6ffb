"""Everything that a GPU host needs which is offline and cannot install anything, in pieces of a given size.

    python experiments/pack_offline.py OUT [--model smollm2] [--extras "train lora"] [--also …] [--python 3.12]

Writes OUT/site.tar.gz (this project, its benchmarks and the packages that the host lacks, unpacked wheels for its
Python) and OUT/weights.000, OUT/weights.001, … (the model as a GGUF, cut). On the host:

    mkdir site && tar -xzf site.tar.gz -C site && cat weights.* > model.gguf
    PYTHONPATH=site python -m composer_replication model fetch smollm2 --gguf model.gguf
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

from composer_replication.training.models.embedded import EMBEDDED, download_gguf

ROOT = Path(__file__).parents[1]
HOST_HAS = "torch transformers accelerate numpy pandas pyarrow triton safetensors tokenizers huggingface-hub"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="smollm2", choices=EMBEDDED, help="whose weights travel")
    parser.add_argument("--extras", default="train lora", help="of this project, whose packages travel")
    parser.add_argument("--also", default="", help="more packages: a name, with what it needs, or name==version")
    parser.add_argument("--python", default="3.12", help="version on the host")
    parser.add_argument("--piece-mb", type=int, default=40, help="largest piece of the weights")
    parser.add_argument("--host-has", default=HOST_HAS, help="packages that need not travel, nor what only they need")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        host_has = set(given.host_has.split())
        packages = needed("composer-replication", set(given.extras.split()), host_has)
        requirements = {*pinned(packages), *also(given.also.split(), host_has)}
        pack_site(given.out / "site.tar.gz", Path(scratch), given.python, sorted(requirements))
        pack_weights(given.model, given.out, Path(scratch), given.piece_mb << 20)


def also(words: list[str], host_has: set[str]) -> list[str]:
    names = [word for word in words if "==" not in word]
    found = [name for word in names for name in (word, *needed(word, set(), host_has))]
    return [*pinned(found), *(word for word in words if "==" in word)]


def pinned(names: list[str]) -> list[str]:
    return [f"{name}=={version(name)}" for name in names]


def pack_site(archive: Path, scratch: Path, python: str, requirements: list[str]) -> None:
    site = scratch / "site"
    site.mkdir()
    download(requirements, scratch / "wheels", "--python-version", python)
    for wheel in (scratch / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(site, ".")
        tar.add(ROOT / "src" / "composer_replication", "composer_replication", filter=without_caches)
        tar.add(ROOT / "experiments", "experiments", filter=without_caches)
        tar.add(ROOT / "benchmarks", "benchmarks", filter=without_caches)
    print(f"{archive}: {len(requirements)} packages, {archive.stat().st_size >> 20} MB")


def without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Neither bytecode nor results nor corpora: `experiments/<name>/results` and `corpus`, `benchmarks/results`."""
    parts = Path(entry.name).parts
    is_results = parts[:2] == ("benchmarks", "results") or (
        parts[:1] == ("experiments",) and parts[2:3] in (("results",), ("corpus",))
    )
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


def pack_weights(model: str, out: Path, scratch: Path, piece_bytes: int) -> None:
    folder = scratch / "weights"
    folder.mkdir()
    number = 0
    with download_gguf(EMBEDDED[model], folder, print).open("rb") as weights:
        while content := weights.read(piece_bytes):
            # Digits of one length, so that the shell joins the pieces in their order.
            piece = out / f"weights.{number:03d}"
            piece.write_bytes(content)
            print(f"{piece}: {piece.stat().st_size >> 20} MB")
            number += 1


def download(requirements: list[str], folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, *options, "--dest", str(folder), *requirements], check=True)


if __name__ == "__main__":
    main()
