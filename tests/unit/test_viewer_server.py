"""Who the local server answers, and what it never does: other hosts, other sites, no token, other files or methods."""

from __future__ import annotations

import json
import re

import pytest
from starlette.testclient import TestClient

from composer_replication.progress import Silent
from composer_replication.records import digest_of
from composer_replication.viewer.api import Library
from composer_replication.viewer.export import address, export
from composer_replication.viewer.server import application
from tests.command_line import recompose
from tests.viewed_run import HOSTILE, add_trace, long_trace, viewed_run

PORT, TOKEN = 8765, "the-token"
HOST = f"127.0.0.1:{PORT}"
PAGE = {"index.html": b"<!doctype html>", "index.js": b"1"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    opened = Library([viewed_run(tmp_path_factory.mktemp("served") / "run").path])
    yield opened
    opened.close()


@pytest.fixture
def client(library):
    app = application(library, PORT, TOKEN, PAGE)
    return TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)


@pytest.fixture
def site(library):
    return library.answer("run", "list", {"kind": "site", "has": "pairs"})["rows"][0]["site_id"]


def test_the_printed_address_gives_a_cookie_and_the_page_needs_no_token(client):
    assert client.get("/api/runs").status_code == 401
    welcome = client.get(f"/?token={TOKEN}")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    cookie = welcome.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/").content == PAGE["index.html"]
    assert client.get("/api/runs").json()["runs"][0]["run"] == "run"
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/api/runs", headers={"cookie": f"recompose_{PORT}=wrong.me"}).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": f"localhost:{PORT}"}, 200),
        ({"host": f"evil.example:{PORT}"}, 403),
        ({"host": "127.0.0.1"}, 403),
        ({"host": "127.0.0.1:1"}, 403),
        ({"host": f"127.0.0.1:{PORT}.evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"origin": f"http://{HOST}"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic dG9rZW4="}, 401),
    ],
)
def test_only_our_own_page_is_answered(client, headers, status):
    found = client.get("/api/run/run", headers={**BEARER, **headers})
    assert found.status_code == status
    assert ("funnel" in found.json()) == (status == 200)


def test_every_answer_forbids_scripts_frames_and_the_outside(client):
    for path in ("/", "/index.js", "/nothing", "/api/runs", "/api/run/run"):
        headers = client.get(path, headers=BEARER).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/..%2f..%2fetc%2fpasswd", "/%2e%2e/secret", "/config.json", "/../run/config.json", "/index.js%00.html",
        "/api/..%2frun/run", "/api/run/..%2f..%2fetc", "/api/run/nothing", "/api/other/run", "/api/run/__class__",
        "/api/run/trace?id=..%2f..%2fetc%2fpasswd", "/api/run/source?trace=..%2f&turn=0", "/api/run/show?id=%00",
        "/api/run/site?id=" + "a" * 5000, "/api/run/trace?id=x&from=99999999999999", "/api/run/list?kind=site&limit=-1",
        "/api/run/compare?with=..%2fother", "/api/run/search?q=%22",
    ],
)  # fmt: skip
def test_nothing_outside_is_reached(client, path):
    found = client.get(path, headers=BEARER)
    assert found.status_code == 404
    assert set(found.json()) == {"error", "next"}


def test_oversized_addresses_and_bodies_are_refused(client, site):
    assert client.get("/api/run/site?id=" + "a" * 9000, headers=BEARER).status_code == 414
    body = json.dumps({"site": site, "choice": "A", "note": "x" * 20000})
    headers = {**BEARER, "content-type": "application/json"}
    assert client.post("/api/run/votes", content=body, headers=headers).status_code == 413


def test_only_votes_are_written(client, site, library):
    for method in ("post", "put", "delete", "patch"):
        for path in ("/", "/index.js", "/api/runs", "/api/run/run", "/api/run/site"):
            assert getattr(client, method)(path, headers=BEARER).status_code == 405
    vote = {"site": site, "choice": "A", "blind": True}
    assert client.post("/api/run/votes", json=vote).status_code == 401
    foreign = {**BEARER, "origin": "http://evil.example"}
    assert client.post("/api/run/votes", json=vote, headers=foreign).status_code == 403
    form = {**BEARER, "content-type": "text/plain"}
    assert client.post("/api/run/votes", content=json.dumps(vote), headers=form).status_code == 415
    torn = {**BEARER, "content-type": "application/json"}
    assert client.post("/api/run/votes", content="{", headers=torn).status_code == 404
    assert not (library.views["run"].run.path / "annotations").exists()
    assert client.post("/api/run/votes", json=vote, headers=BEARER).json()["mine"]["blind"]
    assert (library.views["run"].run.path / "annotations/human.jsonl").read_text().count("\n") == 1


def test_two_browsers_are_two_people(library, site):
    app = application(library, PORT, TOKEN, PAGE)
    people = [TestClient(app, base_url=f"http://{HOST}") for _ in range(2)]
    for person in people:
        person.get(f"/?token={TOKEN}")
    people[0].post("/api/run/votes", json={"site": site, "choice": "tie"})
    ask = f"/api/run/votes?site={site}&blind=1"
    assert people[0].get(ask).json()["mine"]["choice"] == "tie"
    assert people[1].get(ask).json() == {"mine": None, "tally": None}


def test_votes_do_not_follow_a_link(tmp_path):
    library = Library([viewed_run(tmp_path / "run").path])
    site = library.answer("run", "list", {"kind": "site"})["rows"][0]["site_id"]
    outside = tmp_path / "outside"
    outside.write_text("")
    (tmp_path / "run/annotations").mkdir()
    (tmp_path / "run/annotations/human.jsonl").symlink_to(outside)
    client = TestClient(application(library, PORT, TOKEN, PAGE), base_url=f"http://{HOST}")
    vote = {"site": site, "choice": "tie"}
    assert client.post("/api/run/votes", json=vote, headers=BEARER).status_code == 500
    assert outside.read_text() == ""


def test_links_of_a_run_are_not_followed(tmp_path):
    """A run may come from anybody, and an export may go to anybody."""
    run, outside = viewed_run(tmp_path / "run"), tmp_path / "outside.json"
    outside.write_text('{"step": 7, "password": "hunter2", "target": {}}\n')
    for name in ("training/metrics.jsonl", "training/alarms.jsonl", "training/read.jsonl", "report.json"):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(outside)
    library = Library([run.path])
    for name in ("run", "training"):
        assert "hunter2" not in str(library.answer("run", name, {}))


def test_view_prints_one_address_with_a_token(tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr("composer_replication.viewer.server.page_files", lambda: PAGE)
    monkeypatch.setattr(
        "uvicorn.Server.run", lambda self, sockets: served.append((self.config.app, sockets[0].getsockname()))
    )
    run = viewed_run(tmp_path / "run")
    ended = recompose("view", run.path, "--no-browser")
    ((app, (host, port)),) = served
    assert host == "127.0.0.1"
    start, token = ended.stdout.strip().split("token=")
    assert "until Ctrl-C" in ended.stderr and "another terminal" in ended.stderr and token not in ended.stderr
    assert start == f"http://127.0.0.1:{port}/?"
    assert len(token) >= 32
    client = TestClient(app, base_url=f"http://127.0.0.1:{port}")
    assert (client.get("/").status_code, client.get("/api/run/run").status_code) == (200, 401), "the page, no data"
    client.get(f"/?token={token}")
    assert client.get("/api/run/run").json()["run"] == "run"
    exported = recompose("view", run.path, "--export", tmp_path / "out")
    assert exported.returncode == 0 and " views of the run (lists, records, charts)" in exported.stdout
    assert re.search(r", \d+ MB: a snapshot of now\n", exported.stdout)
    assert (tmp_path / "out/data/index.js").exists()
    assert recompose("view", run.path, "--port", "70000").returncode == 2


def test_an_export_holds_every_answer_as_scripts_that_end_nowhere_else(tmp_path):
    run = viewed_run(tmp_path / "run")
    add_trace(run, trace := long_trace(120, HOSTILE.replace("\ud83d", "")))
    library = Library([run.path])
    number = export(library, tmp_path / "out", PAGE, Silent())
    index = (tmp_path / "out/data/index.js").read_text()
    names = json.loads(index.removeprefix("recompose_index(").removesuffix(");\n"))
    assert len(names) == number
    assert (tmp_path / "out/index.html").read_bytes() == PAGE["index.html"]
    for kind in ("site", "pair", "finding", "rollout"):
        for row in library.answer("run", "list", {"kind": kind})["rows"]:
            assert address("run", kind, {"id": row.get("id") or row[f"{kind}_id"]}) in names
    window = address("run", "trace", {"id": trace.trace_id, "from": 100, "to": 150})
    script = (tmp_path / "out/data" / names[window]).read_text()
    assert "<" not in script
    given = json.loads(f"[{script.removeprefix('recompose_data(').removesuffix(');' + chr(10))}]")
    assert given[0] == window
    assert given[1]["turns"][0]["messages"][0]["content"].startswith("turn 100 ")
    assert not any("/source" in at or "votes" in at for at in names)
    with pytest.raises(Exception, match="not empty"):
        export(library, tmp_path / "out", PAGE, Silent())


def test_an_export_does_not_say_where_on_the_machine_things_lie(tmp_path):
    run = viewed_run(tmp_path / "home/marlowe/client-x/run")
    settings = json.loads((run.path / "config.json").read_text())
    settings["ingestion"]["paths"] = ["/home/marlowe/.claude/projects", "client-x/sessions"]
    settings["environment"]["tasks"] = ["/data/client-x/tasks"]
    settings["model"]["name"] = "/data/client-x/model"
    (run.path / "config.json").write_text(json.dumps(settings))
    (run.path / "manifest.json").write_text(json.dumps(run.origin | {"config_hash": digest_of(settings)}))
    library = Library([run.path])
    export(library, tmp_path / "out", PAGE, Silent())
    told = "".join(path.read_text() for path in sorted((tmp_path / "out/data").iterdir()))
    assert '"path":"run"' in told
    assert "recompose evaluate run" in told, "commands name the folder"
    (run.path / "ledger.sqlite").write_bytes(b"damaged" * 1000)
    export(library, tmp_path / "again", PAGE, Silent())
    told += (errors := "".join(path.read_text() for path in sorted((tmp_path / "again/data").iterdir())))
    assert "the ledger run/ledger.sqlite cannot be used" in errors
    for hidden in ("client-x", "/home/marlowe", str(tmp_path)):
        assert hidden not in told


def test_cookies_of_other_programs_do_not_hide_ours(client):
    cookie = f'prefs={{"a":"b"}}; bad name; recompose_{PORT}={TOKEN}.abc'
    assert client.get("/api/runs", headers={"cookie": cookie}).status_code == 200


def test_a_browser_stays_one_person_at_every_visit_and_port(tmp_path):
    library = Library([viewed_run(tmp_path / "run").path])
    site = library.answer("run", "list", {"kind": "site"})["rows"][0]["site_id"]
    jar, said = {}, []
    for port, token in ((PORT, TOKEN), (PORT, TOKEN), (PORT + 1, "another")):
        app = application(library, port, token, PAGE)
        browser = TestClient(app, base_url=f"http://127.0.0.1:{port}", cookies=jar)
        jar.update(browser.get(f"/?token={token}", follow_redirects=False).cookies)
        browser.cookies = jar
        said.append(browser.post("/api/run/votes", json={"site": site, "choice": "tie"}).json()["tally"])
    assert said == [{"tie": 1}] * 3
    assert len(jar) == 3, "a token for each port, and one name"


def test_a_name_that_we_did_not_give_is_not_kept(client):
    welcome = client.get(f"/?token={TOKEN}", headers={"cookie": "recompose_who=somebody else"})
    assert "somebody" not in str(welcome.headers)
