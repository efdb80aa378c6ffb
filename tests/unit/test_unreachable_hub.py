"""A model that is not here, and a hub that refuses, never answers, is slow or says no."""

import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from composer_replication.errors import UsageError
from composer_replication.training.models.loading import load_policy

SLOW_S = 1.5


class SlowlyNo(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0 if self.server.asked else SLOW_S)
        self.do_HEAD()

    def do_HEAD(self):
        self.server.asked.append(self.path)
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *told):
        pass


@contextmanager
def refusing():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield free.getsockname()[1]


@contextmanager
def silent():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@contextmanager
def slow():
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowlyNo) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Points the hub's client at a port, with an empty cache."""
    from huggingface_hub import constants
    from huggingface_hub.utils import close_session

    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_ETAG_TIMEOUT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def point(scheme, port):
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        monkeypatch.setattr(constants, "ENDPOINT", f"{scheme}://127.0.0.1:{port}")
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", constants.ENDPOINT + template)
        close_session()

    yield point
    close_session()


@pytest.mark.parametrize(("server", "scheme"), [(refusing, "http"), (silent, "https")])
def test_a_hub_that_cannot_be_reached_is_told_within_seconds(hub, server, scheme):
    with server() as port:
        hub(scheme, port)
        started = time.monotonic()
        with pytest.raises(UsageError) as raised:
            load_policy("some/model", None, 0)
        took_s = time.monotonic() - started
    told = f"the model some/model is not on this machine, and the hub cannot be reached at {scheme}://127.0.0.1:{port}"
    assert told in str(raised.value)
    assert "recompose model fetch" in raised.value.next_command and "HF_HUB_ETAG_TIMEOUT" in raised.value.next_command
    assert took_s < 4


def test_a_hub_that_never_answers_is_waited_for_as_long_as_the_user_says(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "1")
    with silent() as port:
        hub("http", port)
        started = time.monotonic()
        with pytest.raises(UsageError, match="cannot be reached"):
            load_policy("some/model", None, 0)
    assert 1 <= time.monotonic() - started < 2.5


def test_a_slow_hub_is_asked_for_the_files(hub):
    with slow() as server:
        hub("http", server.server_port)
        with pytest.raises(UsageError, match="cannot load model some/model"):
            load_policy("some/model", None, 0)
        assert "/some/model/resolve/main/config.json" in server.asked
