"""Model, card and dataset to the hub. The hub is a loopback server that speaks the endpoints which the library calls:
making a repository, choosing how files travel, large files apart, one commit. The real one was not asked."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from composer_replication.config import Config, IngestionConfig
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.pairs.export import export_pairs
from composer_replication.runs import Run, write_atomically
from composer_replication.stages.hub import files_to_send, refuse_secrets

from .test_export import PAIRS, call, make_pair, make_trace
from .test_tables import ROWS

REVISION = "0123456789" * 4
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"


class Hub:
    """What came in: repositories with their visibility, large files by hash, and the files of each commit."""

    def __init__(self) -> None:
        self.made: list[dict] = []
        self.stored: dict[str, bytes] = {}
        self.committed: dict[str, bytes] = {}
        self.tokens: set[str | None] = set()
        self.paths: list[str] = []
        self.offered: dict[str, bytes] = {}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                hub.paths.append(self.path)
                status, value = hub.answer(self.path, body, self.headers.get("Authorization"))
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                """Also of HEAD: what a dataset holds, and its files."""
                name = self.path.rpartition("/")[2]
                data = hub.offered.get(name)
                hub.paths.append(self.path)
                if data is None:
                    files = [
                        {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
                        for name, content in hub.offered.items()
                    ]
                    about = {"id": "them/sessions", "sha": REVISION, "siblings": []}
                    data = json.dumps(files if "/tree/" in self.path else about).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
                self.send_header("X-Repo-Commit", REVISION)
                self.end_headers()
                self.wfile.write(data if self.command == "GET" else b"")

            do_HEAD = do_GET
            do_POST = do_PUT = _answer

            def log_message(self, *args) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, path: str, body: bytes, authorization: str | None) -> tuple[int, dict]:
        if path.startswith("/stored/"):
            self.stored[path.removeprefix("/stored/")] = body
            return 200, {}
        self.tokens.add(authorization)
        if authorization != "Bearer hf_test":
            return 401, {"error": "Invalid credentials"}
        if path == "/api/repos/create":
            self.made.append(json.loads(body))
            kind = "datasets/" if self.made[-1].get("type") == "dataset" else ""
            return 200, {"url": f"{self.url}/{kind}{self.made[-1]['organization']}/{self.made[-1]['name']}"}
        if "/preupload/" in path:
            named = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": name, "uploadMode": _mode(name), "shouldIgnore": False} for name in named]
            return 200, {"files": modes}
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            return 200, {
                "transfer": "basic",
                "objects": [
                    {**each, "actions": {"upload": {"href": f"{self.url}/stored/{each['oid']}"}}} for each in objects
                ],
            }
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        assert "/commit/" in path, path
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                self.committed[value["path"]] = base64.b64decode(value["content"])
            if line["key"] == "lfsFile":
                self.committed[value["path"]] = self.stored[value["oid"]]
        return 200, {"commitUrl": f"{self.url}/{path.split('/')[3]}/x/commit/abc", "commitOid": "abc", "success": True}

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc) -> None:
        self._server.shutdown()
        self._server.server_close()


def _mode(name: str) -> str:
    return "lfs" if name.endswith((".safetensors", ".parquet")) else "regular"


def export(run: Run, hub: Hub, *options: str, token: str = "hf_test") -> subprocess.CompletedProcess[str]:
    return recompose(hub, "export", str(run.path), *options, token=token)


def recompose(hub: Hub, *words: str, token: str = "hf_test") -> subprocess.CompletedProcess[str]:
    """In a process of its own, because the library reads its address when it is imported."""
    environ = os.environ | {
        "HF_ENDPOINT": hub.url, "HF_TOKEN": token, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "0",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "composer_replication", *words], env=environ, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def run(tmp_path) -> Run:
    """With an export of pairs and a trained model."""
    made = Run.start(tmp_path / "run", Config())
    made.stage("ingestion").finish([], {"traces": 2}, [], time.monotonic())
    made.stage("training").finish([], {"steps": 1}, [], time.monotonic())
    write_atomically(made.path / "training" / "model" / "README.md", "# A policy\n")
    write_atomically(made.path / "training" / "model" / "config.json", "{}")
    (made.path / "training" / "model" / "model.safetensors").write_bytes(b"weights")
    write_dataset(made, PAIRS)
    return made


def write_dataset(run: Run, pairs) -> None:
    folder = run.path / "pairs" / "export" / "trl"
    export_pairs(pairs, map(make_trace, pairs), "trl", folder)
    write_atomically(folder / "README.md", "# Pairs\n")


def test_a_model_goes_with_its_card_in_one_commit(run):
    with Hub() as hub:
        done = export(run, hub, "--hub-model", "me/policy", "--json")
        assert done.returncode == 0, done.stderr
    assert [(made["organization"], made["name"], made["visibility"]) for made in hub.made] == [
        ("me", "policy", "private")
    ]
    assert hub.committed == {"README.md": b"# A policy\n", "config.json": b"{}", "model.safetensors": b"weights"}
    assert hashlib.sha256(b"weights").hexdigest() in hub.stored
    told = json.loads(done.stdout)
    assert told["url"] == f"{hub.url}/me/policy" and told["files"] == ["README.md", "config.json", "model.safetensors"]


def test_what_was_sent_as_a_dataset_is_loaded_as_it_was_exported(run, tmp_path):
    from datasets import load_dataset

    with Hub() as hub:
        done = export(run, hub, "--hub-dataset", "me/pairs", "--public")
        assert done.returncode == 0, done.stderr
    assert hub.made[0]["type"] == "dataset" and hub.made[0]["visibility"] == "public"
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    for name, content in hub.committed.items():
        (fetched / name).write_bytes(content)
    rows = load_dataset(str(fetched), split="train", cache_dir=str(tmp_path / "cache"))
    assert [row["pair_id"] for row in rows] == ["p0", "p1"]
    assert rows[0]["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"path": "a.py"}


def test_a_dataset_of_the_hub_is_ingested(tmp_path):
    from datasets import Dataset

    Dataset.from_list(ROWS).to_parquet(str(tmp_path / "train.parquet"))
    with Hub() as hub:
        hub.offered = {"train.parquet": (tmp_path / "train.parquet").read_bytes(), "picture.png": b"no session"}
        done = recompose(hub, "ingest", "hf://datasets/them/sessions", "--run", str(tmp_path / "run"), "--json")
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["traces"] == len(ROWS)
    assert (tmp_path / "run-them--sessions" / "train.parquet").exists()
    assert not any("picture" in path for path in hub.paths)


def test_a_secret_that_a_teacher_wrote_stops_everything(run):
    leak = make_pair(7, call("read_file", json.dumps({"path": SECRET})), call("read_file", '{"path": "a"}'))
    write_dataset(run, [*PAIRS, leak])
    with Hub() as hub:
        done = export(run, hub, "--hub-dataset", "me/pairs")
        assert done.returncode == 1 and hub.paths == []
    assert "nothing was sent: 1 × github-pat in train.parquet row 2, chosen" in done.stderr
    assert SECRET not in done.stderr


def test_personal_data_in_a_card_stops_it_too(run):
    write_atomically(run.path / "training" / "model" / "README.md", "made in /home/alice/runs by alice@corp.com\n")
    with pytest.raises(RecomposeError, match=r"1 × email, 1 × home-directory in README.md"):
        refuse_secrets(run, files_to_send(run, "model"))


def test_of_sessions_that_were_not_redacted_nothing_is_sent(tmp_path):
    made = Run.start(tmp_path / "raw", Config(ingestion=IngestionConfig(redact=False)))
    made.stage("ingestion").finish([], {"traces": 1}, [], time.monotonic())
    with pytest.raises(UsageError, match="without redaction"):
        refuse_secrets(made, [])


def test_a_refusal_of_the_hub_is_one_line_without_the_token(run):
    with Hub() as hub:
        done = export(run, hub, "--hub-model", "me/policy", token="hf_wrong")
    assert done.returncode == 1 and not hub.committed
    assert "the hub refused me/policy: HTTP 401; next: hf auth login" in done.stderr
    assert "hf_wrong" not in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_a_hub_that_does_not_answer_is_one_line_too(run):
    with Hub() as gone:
        pass
    done = export(run, gone, "--hub-model", "me/policy")
    assert done.returncode == 1
    assert "error: the hub cannot be reached (ConnectError); next: check the network, then again\n" in done.stderr


def test_what_is_not_there_is_named_with_the_command_that_makes_it(tmp_path):
    empty = Run.start(tmp_path / "run", Config())
    with pytest.raises(UsageError, match=r"no export of pairs; next: recompose pair .* --export trl"):
        files_to_send(empty, "dataset")
    with pytest.raises(UsageError, match="no finished training stage"):
        files_to_send(empty, "model")
