"""Whether an interpreter of the sandbox can import the target from anywhere but the task's tree.

Runs one probe inside a sandbox with an empty working folder: every Python that a command could start is asked. The
answer holds for a toolchain and the names, so it is kept for the process.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from composer_replication.errors import RecomposeError

if TYPE_CHECKING:
    from ..sandbox.toolchain import Toolchain

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


class InstalledCopy(NamedTuple):
    interpreter: str
    package: str
    place: str


def installed_copies(
    packages: tuple[str, ...], toolchain: Toolchain, backend: str = "auto"
) -> tuple[InstalledCopy, ...]:
    settings = (
        toolchain.python,
        tuple(sorted((str(host), inside) for host, inside in toolchain.read_only.items())),
        tuple(sorted(toolchain.env.items())),
    )
    return _probe(packages, settings, backend)


@lru_cache(maxsize=64)
def _probe(
    packages: tuple[str, ...],
    settings: tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]],
    backend: str,
) -> tuple[InstalledCopy, ...]:
    from pathlib import Path

    from ..sandbox.interface import SandboxSpec
    from ..sandbox.open import open_sandbox

    python, read_only, env = settings
    spec = SandboxSpec(read_only={Path(host): inside for host, inside in read_only}, env=dict(env))
    with open_sandbox(spec, backend) as sandbox:
        result = sandbox.exec([python, "-c", PROBE, *packages], timeout_s=60)
    if not result.ok:
        raise RecomposeError(
            f"the interpreter of the sandbox does not start: {result.stderr[-400:].decode(errors='replace')}",
            "recompose doctor",
        )
    return tuple(InstalledCopy(*copy) for copy in json.loads(result.stdout))
