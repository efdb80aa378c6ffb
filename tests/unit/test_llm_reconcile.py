"""Calls in doubt, looked up at their providers: one that tells nothing does not keep the others from being settled."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from composer_replication.llm.ledger import Ending, Ledger
from composer_replication.llm.reconcile import reconcile

WORST = 100


@pytest.fixture(scope="module")
def provider():
    """Answers each path with what `told` has for it, as OpenRouter does, and 404 for all others."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            data = server.told.get(self.path)
            body = json.dumps({"data": data}).encode()
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ledger(ledger):
    ledger.set_cap(10_000)
    return ledger


def doubt(ledger: Ledger, teacher: str, base_url: str, spent_before: int | None = None, generation: str | None = None):
    ledger.remember_teacher(teacher, base_url, None)
    if spent_before is not None:
        ledger.note_usage(base_url, spent_before)
    number = len(ledger.rows("SELECT id FROM attempts"))
    attempt = ledger.reserve(f"k{number}", teacher, WORST).attempt
    ledger.finish(attempt, Ending("in_doubt", exact=False, generation=generation))


def costs(ledger: Ledger) -> list[tuple[int, int]]:
    return ledger.rows("SELECT cost_micros, exact FROM attempts ORDER BY id")


def test_a_generation_tells_its_cost_and_one_that_is_unknown_stays_at_its_worst(provider, ledger):
    provider.told = {"/v1/generation?id=gen%261": {"total_cost": 0.00003}, "/v1/generation?id=gen-3": {"cost": 1}}
    for generation in ("gen&1", "gen-2", "gen-3", None):
        doubt(ledger, "m", f"{provider.url}/v1", generation=generation)
    assert reconcile(ledger) == 1
    assert costs(ledger) == [(30, 1), (WORST, 0), (WORST, 0), (WORST, 0)]
    assert ledger.totals()[:2] == (330, 0)


def test_what_a_key_has_spent_settles_the_doubts_of_its_server_alone(provider, ledger):
    """In this order: nobody knows what was spent before, nobody tells what is now, too much, too little, and right."""
    provider.told = {
        "/start/key": {"usage": 0.00007},
        "/more/key": {"usage": 0.000201},
        "/less/key": {"usage": 0.000099},
        "/right/key": {"usage": 0.0002, "byok_usage": 0.00003},
    }
    doubt(ledger, "start", f"{provider.url}/start")
    for teacher in ("silent", "more", "less", "right", "right"):
        doubt(ledger, teacher, f"{provider.url}/{teacher}", spent_before=100)
    assert reconcile(ledger) == 0
    assert reconcile(ledger, by_key_usage=True) == 2
    assert costs(ledger) == [(WORST, 0)] * 4 + [(100, 1), (30, 1)]
    assert ledger.totals()[:2] == (530, 0)
