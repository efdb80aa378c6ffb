"""The origin's spike 002b: the same 100 rollouts through verifiers 0.4, whose records PRIME-RL trains on.

    recompose experiment run experiments/002b-verifiers-traces        about five minutes of one core; no GPU

Needs `.venv-verifiers` (`make test` makes it; `VERIFIERS_PYTHON` names another). verifiers plays the five tasks of 002a
against a loopback server that samples the policy of 002a: once with its client for training, once with that for
evaluation. Writes results/{train,eval}.traces.jsonl.zst (what verifiers saved, untouched but for paths) and
results/{train,eval}.json.zst (time, and every turn as the server sampled it), then the tables.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import zstandard
from rebuild import CLIENTS, RESULTS, rebuild
from serve import MODEL, PolicyServer
from small_tasks import write_small_tasks

from composer_replication.cli.common import quiet_libraries
from composer_replication.errors import UsageError

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("VERIFIERS_PYTHON", ROOT / ".venv-verifiers" / "bin" / "python"))
RUNS = Path("runs/002b-verifiers-traces").resolve()
POLICY = Path("runs/002a-trl-traces/policy").resolve()
ROLLOUTS_PER_TASK = 20
SEED = 0
EVALUATE = "import sys; from verifiers.v1.cli.eval.main import main; main(sys.argv[1:])"
LEAVE_OUT = ("VIRTUAL_ENV", "PYTHON", "PRIME")


def play(client: str) -> dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(LEAVE_OUT)}
    env["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("src", "integrations/verifiers"))
    shutil.rmtree(RUNS / client, ignore_errors=True)
    with PolicyServer(POLICY, SEED) as server:
        options = {
            "--env.taskset.tasks": str(RUNS / "tasks"), "--model": MODEL, "--client.type": client,
            "--client.base-url": server.url, "--num-rollouts": str(ROLLOUTS_PER_TASK), "--max-concurrent": "2",
            "--env.agent.harness.id": "composer-code-tasks", "--env.agent.harness.steps": "20",
            "--output-dir": str(RUNS / client), "--run.name": "run",
        }  # fmt: skip
        if client == "train":
            options |= {"--client.renderer.name": "qwen3", "--client.renderer-model-name": str(POLICY)}
        words = [word for option in options.items() for word in option]
        command = [str(PYTHON), "-c", EVALUATE, "composer-code-tasks", *words, "--no-push", "--no-rich"]
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=RUNS, env=env, check=False)
        seconds = time.monotonic() - started
        if done.returncode:
            raise SystemExit(done.stderr[-4000:])
        sampled = server.sampled
    _keep(RUNS / client / "run" / "traces.jsonl", RESULTS / f"{client}.traces.jsonl.zst")
    texts = [server.tokenizer.decode(ids) for _, ids in sampled]
    return {"seconds": seconds, "sampled": sampled, "texts": texts}


def _keep(saved: Path, to: Path) -> None:
    text = saved.read_text()
    for path, name in (
        (RUNS, "RUNS"),
        (POLICY, "POLICY"),
        (ROOT, "ROOT"),
        (sys.base_prefix, "PYTHON"),
        (Path.home(), "HOME"),
    ):
        text = text.replace(str(path), name)
    to.write_bytes(zstandard.compress(text.encode(), 19))


def main() -> None:
    quiet_libraries()
    if not PYTHON.exists():
        raise UsageError("verifiers is not installed", "make .venv-verifiers/installed, or set VERIFIERS_PYTHON")
    RESULTS.mkdir(exist_ok=True)
    write_small_tasks(RUNS / "tasks")
    for client in CLIENTS:
        played = play(client)
        content = json.dumps(played, separators=(",", ":")).encode()
        (RESULTS / f"{client}.json.zst").write_bytes(zstandard.compress(content, 19))
    print(rebuild())


if __name__ == "__main__":
    main()
