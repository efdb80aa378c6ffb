"""A SkyRL server on CPU, in the environment that `make engines-tinker` sets up; it can be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx

SERVE = Path(__file__).parents[2] / "engines" / "tinker" / "serve"
START_S = 180


class Server:
    def __init__(self, model: Path, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url, self._model, self._folder = f"http://127.0.0.1:{self._port}", model, folder
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """With the folder and the database of before."""
        command = [str(SERVE), str(self._model), str(self._folder), str(self._port)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                env={**environment, "SAMPLE_ROWS": "16", "HF_HUB_OFFLINE": "1"},
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
