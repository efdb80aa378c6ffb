"""Where a deleted function stands elsewhere in what an agent can read: the interpreter's library, the packages that
tests need, copies inside those packages, and the system's few files.

Runs `world_scan.py` once per world in a sandbox like the agent's, and keeps what it found in the cache. The backend
`unsafe` shows the whole host, which is not read: there, only the toolchain is. Not seen: compiled code without its
source, encoded, translated or paraphrased copies.
"""

from __future__ import annotations

import json
import os
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from composer_replication.errors import RecomposeError

from ..sandbox.cache import cache_folder, made_once
from ..sandbox.interface import MIB, Limits, SandboxSpec
from ..sandbox.open import open_sandbox
from ..sandbox.system_root import shown_paths, system_root
from ..sandbox.toolchain import INSIDE, Toolchain
from . import world_scan

LIMITS = replace(Limits(), wall_s=600.0, cpu_s=600, memory_bytes=2048 * MIB, output_bytes=256 * MIB)
FEWEST_FINGERPRINTS = 6
"""With fewer, a function is too short for its form to tell anything, unless its name does."""
FEWEST_OF_NAMESAKE = 2
NEAR_COPY = 0.8
"""Share of a function's fingerprints in one file."""
NAMESAKE = 0.5
"""The same, where the file also defines something of that name, and few others do."""
MOST_NAMESAKES = 5
LOOKS_ALIKE = 0.6
"""For people to look at."""
PROBE = """
import glob, json, os, subprocess, sys
wanted = sys.argv[1:]
ask = (
    "import importlib.util, json, sys\\n"
    "places = {}\\n"
    "for name in sys.argv[1:]:\\n"
    "    try:\\n"
    "        spec = importlib.util.find_spec(name)\\n"
    "    except (ImportError, ValueError):\\n"
    "        spec = None\\n"
    "    if spec is not None:\\n"
    "        places[name] = spec.origin or ','.join(spec.submodule_search_locations or ())\\n"
    "print(json.dumps(places))\\n"
)
folders = [*os.environ.get('PATH', '').split(':'), '/usr/bin', '/usr/local/bin', '/bin']
pythons = {os.path.realpath(path) for folder in folders if folder for path in glob.glob(folder + '/python[0-9]*')
           if os.access(path, os.X_OK) and 'config' not in path}
pythons.add(sys.executable)
found = []
for python in sorted(pythons):
    answer = subprocess.run([python, '-c', ask, *wanted], capture_output=True, text=True)
    if answer.returncode == 0:
        found += [[python, name, place] for name, place in json.loads(answer.stdout).items()]
print(json.dumps(found))
"""


class ShownFolder(NamedTuple):
    """A folder of the host that agents see beside the toolchain, such as the runtime of a harness."""

    folder: Path
    inside: str
    key: str
    """Changes with what is in it."""


class NearCopy(NamedTuple):
    function: str
    file: str
    share: float
    certain: bool


@dataclass(frozen=True)
class WorldIndex:
    files: list[str]
    definitions: Mapping[str, list[int]]
    fingerprints: array[int]
    """Sorted."""
    places: array[int]

    def near_copies(self, functions: Mapping[str, str]) -> Iterator[NearCopy]:
        """`functions`: qualified name -> the text of the body."""
        for function, text in functions.items():
            wanted = set(world_scan.fingerprints(text))
            namesakes = self.definitions.get(function.rpartition(".")[2], [])
            rare = namesakes if len(namesakes) <= MOST_NAMESAKES else []
            found = Counter(place for each in wanted for place in self._places_of(each))
            for place, count in found.most_common(MOST_NAMESAKES):
                share, is_rare = count / len(wanted), place in rare
                if len(wanted) < FEWEST_FINGERPRINTS:
                    certain = is_rare and len(wanted) >= FEWEST_OF_NAMESAKE and share == 1
                else:
                    certain = share >= (NAMESAKE if is_rare else NEAR_COPY)
                if certain or (share >= LOOKS_ALIKE and len(wanted) >= FEWEST_FINGERPRINTS):
                    yield NearCopy(function, self.files[place], share, certain)

    def defines(self, name: str) -> list[str]:
        return [self.files[place] for place in self.definitions.get(name, ())]

    def _places_of(self, fingerprint: int) -> Iterator[int]:
        at = bisect_left(self.fingerprints, fingerprint)
        while at < len(self.fingerprints) and self.fingerprints[at] == fingerprint:
            yield self.places[at]
            at += 1


@lru_cache(maxsize=8)
def index_of(toolchain: Toolchain, backend: str, more: ShownFolder | None = None) -> WorldIndex:
    """Of the toolchain and the system around it; or of what `more` shows, alone."""
    read_only = {**toolchain.read_only, **({more.folder: more.inside} if more else {})}
    spec = SandboxSpec(read_only=read_only, env=toolchain.env, limits=LIMITS)
    source = Path(world_scan.__file__).read_text(encoding="utf-8")
    with open_sandbox(spec, backend) as sandbox:
        roots = (more.inside,) if more else _roots(sandbox.backend)
        of = more.key if more else str(toolchain.folder)
        known = cache_folder() / f"world-{_key(of, sandbox.backend, roots, source)}.index"

        def scan(target: Path) -> None:
            result = sandbox.exec([toolchain.python, "-I", "-c", source, *roots])
            if not result.ok or result.truncated:
                said = result.stderr[-300:].decode(errors="replace")
                raise RecomposeError(f"what the sandbox shows could not be read: {said}", "recompose doctor")
            target.write_bytes(result.stdout)

        return read_index(made_once(known, scan).read_bytes())


def packages_in(folder: Path, names: Collection[str]) -> Iterator[Path]:
    """Where an interpreter of that folder could import one of these."""
    for place, _, _ in os.walk(folder):
        if place.endswith(("site-packages", "dist-packages")):
            found = (Path(place, f"{name}{end}") for name in names for end in ("", ".py"))
            yield from (path for path in found if path.exists())


def _roots(backend: str) -> tuple[str, ...]:
    """Without a mount table the host's folders cannot be listed, so what is shown of them is named."""
    if backend == "landlock":
        return (INSIDE, *shown_paths())
    return (INSIDE,) if backend == "unsafe" else ("/",)


def _key(of: str, backend: str, roots: tuple[str, ...], source: str) -> str:
    image = os.environ.get("RECOMPOSE_SANDBOX_IMAGE", "")
    parts = (of, str(system_root()), backend, image, *roots, source)
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def read_index(content: bytes) -> WorldIndex:
    head, _, numbers = content.partition(b"\n")
    told = json.loads(head)
    fingerprints, places = array("q"), array("q")
    fingerprints.frombytes(numbers[: 8 * told["grams"]])
    places.frombytes(numbers[8 * told["grams"] :])
    return WorldIndex(told["files"], told["definitions"], fingerprints, places)


class InstalledCopy(NamedTuple):
    interpreter: str
    package: str
    place: str


@lru_cache(maxsize=64)
def installed_copies(
    packages: tuple[str, ...], toolchain: Toolchain, backend: str = "auto"
) -> tuple[InstalledCopy, ...]:
    """Whether an interpreter of the sandbox can import the target from anywhere but the task's tree: one probe with an
    empty working folder asks every Python that a command could start. Kept for the process."""
    with open_sandbox(SandboxSpec(read_only=toolchain.read_only, env=toolchain.env), backend) as sandbox:
        result = sandbox.exec([toolchain.python, "-c", PROBE, *packages], timeout_s=60)
    if not result.ok:
        raise RecomposeError(
            f"the interpreter of the sandbox does not start: {result.stderr[-400:].decode(errors='replace')}",
            "recompose doctor",
        )
    return tuple(InstalledCopy(*copy) for copy in json.loads(result.stdout))
