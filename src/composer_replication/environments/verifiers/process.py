"""The process that holds verifiers: started with its own Python, asked over loopback, ended by its id.

It gets a handful of harmless environment variables and those that the config names, so that no key of this process
reaches a taskset unasked. Its complaints go to a temporary file that is shown when it fails.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import JsonObject

HOST = Path(__file__).parent / "host"
TOKEN_VARIABLE = "RECOMPOSE_PLAYER_TOKEN"  # noqa: S105 - the variable's name
HANDED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
GOODBYE_S = 15.0
SHOWN_CHARS = 1500


class VerifiersProcess:
    def __init__(
        self,
        python: str,
        settings: JsonObject,
        timeout_s: float,
        python_path: Sequence[str] = (),
        variables: Sequence[str] = (),
    ) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed with us
        token = secrets.token_hex(24)
        env = {name: os.environ[name] for name in (*HANDED_ON, *variables) if name in os.environ}
        paths = [str(HOST), *(str(Path(folder).resolve()) for folder in python_path)]
        env |= {TOKEN_VARIABLE: token, "PYTHONPATH": os.pathsep.join(paths)}
        command = [python, "-c", "import recompose_player; recompose_player.main()"]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=env, text=True
            )
        except OSError as error:
            self._log.close()
            raise UsageError(f"{python} cannot be started: {error.strerror}", "name verifiers' Python") from error
        told = self._hello(settings, timeout_s)
        self.tasks: Mapping[str, JsonObject] = told["tasks"]
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{told['port']}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        if self._log.closed:
            raise RecomposeError("the process of verifiers was closed", "open the environment again")
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise RecomposeError(
                f"verifiers does not answer ({type(error).__name__}){self._last_words()}", "run again"
            ) from error
        if answer.status_code != 200:
            raise RecomposeError(f"verifiers answers with status {answer.status_code}{self._last_words()}", "run again")
        return answer.json()

    def close(self) -> None:
        """Twice is fine. Closing its stdin asks it to leave; it is killed where it stays."""
        if self._log.closed:
            return
        self._client.close()
        self._end()

    def _hello(self, settings: JsonObject, timeout_s: float) -> Any:
        assert self._process.stdin and self._process.stdout
        patience = threading.Timer(timeout_s, self._process.kill)
        patience.start()
        try:
            self._process.stdin.write(json.dumps(settings) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            patience.cancel()
        if not line:
            self._process.wait(GOODBYE_S)
            told = self._last_words().splitlines()[-1:] or [""]
            self._end()
            raise UsageError(
                f"verifiers does not load {settings['taskset']}: {told[0].removeprefix(': ')}",
                "install its package where verifiers is; see docs/foreign-environments.md",
            )
        return json.loads(line)

    def _end(self) -> None:
        assert self._process.stdin and self._process.stdout
        with suppress(OSError):  # it may have gone before us
            self._process.stdin.close()
        try:
            self._process.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        said = self._log.read()[-SHOWN_CHARS:].strip()
        return f": {said}" if said else ""
