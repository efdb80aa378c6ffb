"""A SkyRL server on CPU, in the environment that `make engines-tinker` sets up; it can be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx

ENVIRONMENT = Path(os.environ.get("RECOMPOSE_TINKER_ENV", Path(__file__).parents[2] / ".venv-tinker"))
START_S = 180
SETTINGS = '{"max_lora_adapters":16,"max_lora_rank":8,"train_micro_batch_size":16,"sample_max_num_sequences":16}'


class Server:
    def __init__(self, model: Path, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url, self._model, self._folder = f"http://127.0.0.1:{self._port}", model, folder
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """With the folder and the database of before."""
        own = {
            "JAX_PLATFORMS": "cpu",
            "CUDA_VISIBLE_DEVICES": "",
            "VIRTUAL_ENV": str(ENVIRONMENT),
            "HF_HUB_OFFLINE": "1",
        }
        path = f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}"
        command = [
            *("uv", "run", "--active", "--no-project", "-m", "skyrl.tinker.api", "--backend", "jax"),
            *("--base-model", str(self._model), "--host", "127.0.0.1", "--port", str(self._port)),
            *("--checkpoints-base", str(self._folder / "checkpoints")),
            *("--database-url", f"sqlite:///{self._folder / 'tinker.db'}", "--backend-config", SETTINGS),
        ]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                env={**environment, **own, "PATH": path},
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + START_S
        while not self._answers():
            assert time.monotonic() < until and self._process.poll() is None, (self._folder / "log").read_text()[-4000:]
            time.sleep(0.5)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/v1/healthz", timeout=5).is_success
        except httpx.HTTPError:
            return False
