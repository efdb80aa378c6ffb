"""What the viewer says of a run: provenance to the bytes, windows, lists, votes, tokens; hostile text as glyphs."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_replication.config import Config
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import ErrorSite, Trace, Turn, emptied, render_action
from composer_replication.runs import LOCK, RECORDS, Run, write_atomically
from composer_replication.store import SHARDS
from composer_replication.viewer.annotations import HUMAN, add_vote, tally, votes_on
from composer_replication.viewer.api import Library, encoded
from composer_replication.viewer.cache import Cache, CacheEntry
from composer_replication.viewer.visible import one_line, visible
from tests.command_line import recompose
from tests.samples import sample_files
from tests.viewed_run import FAMILIES, HOSTILE, add_trace, long_trace, viewed_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return viewed_run(tmp_path_factory.mktemp("viewed") / "run")


@pytest.fixture(scope="module")
def ask(run):
    library = Library([run.path])
    yield lambda name, who="", **query: library.answer("run", name, query, who)
    library.close()


@pytest.fixture(scope="module")
def site(run):
    return run.stage("sites").read(ErrorSite)[0]


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("\x9b31m", "⟦009B⟧31m"),
        ("a\u202eb", "a⟦202E⟧b"),
        ("a\u200bb\ufeff", "a⟦200B⟧b⟦FEFF⟧"),
        ("\x7f\r\x00", "␡␍␀"),
        ("\U000e0041", "⟦E0041⟧"),
        ("half \ud83d", "half ⟦D83D⟧"),
        ("a\n\tb ❤️ 漢字 é", "a\n\tb ❤️ 漢字 é"),
    ],
)
def test_what_hides_is_shown_as_a_glyph(hidden, shown):
    assert visible(hidden) == shown


@given(st.text(alphabet=st.characters(codec=None)))
def test_no_control_is_left_and_every_encoder_takes_the_rest(text):
    shown = visible(text)
    assert not any((ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160 for char in shown)
    shown.encode()
    assert visible(shown) == shown
    assert "\n" not in one_line(text, 40)


def test_the_bytes_of_a_turn_hold_what_the_trace_says(run, ask):
    """For every turn of the session: its range in the file holds the words and the ids of the calls."""
    trace = run.stage("ingestion").read(Trace)[0]
    for number, turn in enumerate(trace.turns):
        found = ask("source", trace=trace.trace_id, turn=str(number))
        assert found["found"]
        assert tuple(found["byte_range"]) == turn.byte_range
        message = trace.messages[turn.start]
        lines = [json.loads(line) for line in found["text"].splitlines()]
        ids = {block.get("id") for line in lines for block in line["message"]["content"] if isinstance(block, dict)}
        assert {call["id"] for call in message.get("tool_calls", [])} <= ids
        assert json.dumps(message["content"])[1:20].rstrip('"') in json.dumps(lines)


@pytest.mark.parametrize("suffix", ["codex", "cline"])
def test_the_bytes_are_found_in_files_of_a_folder_and_compressed(tmp_path, suffix):
    from composer_replication.pipeline import run_stage
    from composer_replication.progress import Silent

    source = next(path for path in sample_files() if suffix in str(path) and path.is_file())
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / source.name).write_bytes(source.read_bytes())
    base = Config()
    opened = Run.start(
        tmp_path / "run",
        base.model_copy(
            update={"ingestion": base.ingestion.model_copy(update={"paths": (str(folder),), "redact": False})}
        ),
    )
    run_stage(opened, "ingestion", Silent())
    library, trace = Library([opened.path]), opened.stage("ingestion").read(Trace)[0]
    found = library.answer("run", "source", {"trace": trace.trace_id, "turn": "0"})
    assert found["found"], found["why"]
    (folder / source.name).write_bytes(b"{}")
    assert "changed" in library.answer("run", "source", {"trace": trace.trace_id, "turn": "0"})["why"]


def test_a_pair_leads_down_to_bytes_and_up_to_the_step(ask, run, site):
    pair = ask("list", kind="pair")["rows"][0]
    shown = ask("show", id=pair["pair_id"])
    kinds = [each["kind"] for each in shown["from"]]
    assert kinds == ["site", "reply", "reply", "turn", "trace", "bytes"]
    assert shown["from"][-1]["byte_range"][0] > 0
    assert [each["id"] for each in shown["to"]] == ["2"]
    back = ask("show", id=site.site_id)["to"]
    assert {"hint", "reply", "pair", "step"} == {each["kind"] for each in back}


def test_ids_are_found_by_beginning_state_and_turn(ask, site):
    assert ask("show", id=site.site_id[:8])["id"] == site.site_id
    assert ask("show", id=site.state_id)["id"] == f"{site.trace_id}:{site.turn}"
    assert ask("show", id="task/1")["kind"] == "task"
    for wrong in ("ffffffffffff", f"{site.trace_id}:999", "../../etc/passwd", "' OR 1=1 --"):
        with pytest.raises(UsageError):
            ask("show", id=wrong)


def test_a_window_is_what_the_trace_holds(run, ask):
    trace = run.stage("ingestion").read(Trace)[0]
    shown = ask("trace", id=trace.trace_id, **{"from": "3", "to": "6"})
    assert [turn["turn"] for turn in shown["turns"]] == [3, 4, 5]
    for turn in shown["turns"]:
        at = trace.turns[turn["turn"]]
        assert [message["content"] for message in turn["messages"]] == [
            message["content"][:20000] for message in trace.messages[at.start : at.end]
        ]
        assert turn["state_id"] == trace.state_id(turn["turn"])
    assert {mark["kind"] for mark in shown["marks"]} == {"site", "pair", "finding"}
    history = trace.history(5)
    seen = ask("saw", trace=trace.trace_id, turn="5", **{"from": "0"})
    assert [message["content"] for message in seen["messages"]] == [message["content"][:20000] for message in history]
    assert seen["total"] == len(history)
    assert emptied(history[0])["content"] != history[0]["content"]


def test_lists_filter_sort_and_count(ask):
    sites = ask("list", kind="site")
    kinds = {facet["value"]: facet["count"] for facet in sites["facets"]["error_kind"]}
    assert sum(kinds.values()) == sites["total"] == 2
    only = ask("list", kind="site", error_kind=next(iter(kinds)))
    assert only["total"] == kinds[next(iter(kinds))]
    assert ask("list", kind="site", has="pairs")["total"] == 1
    assert ask("list", kind="site", lacks="pairs")["total"] == 1
    assert [row["turn"] for row in ask("list", kind="site", sort="-turn")["rows"]] == [5, 2]
    assert ask("list", kind="pair", off_policy="true")["total"] == 1
    assert ask("list", kind="site", q="PROMPT")["total"] == 1
    for query in (
        {"kind": "nothing"},
        {"kind": "site", "a b": "1"},
        {"kind": "site", "has": "x"},
        {"kind": "site", "offset": "-1"},
    ):
        with pytest.raises(UsageError):
            ask("list", **query)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *(("fault", 0), ("site_id", 0), ("null", 0), ("true", 0), ('","', 0)),
        *(("type error", 1), ("TYPE_ERROR", 1), ("Leave nothing out", 1), ("policy", 2)),
    ],
)
def test_a_list_is_filtered_by_what_its_rows_say(ask, text, found):
    """Not by the names of their fields; and by what they carry of other records, here a hint."""
    assert ask("list", kind="site", q=text)["total"] == found


def test_hints_are_filtered_by_the_kind_that_their_rows_show(ask):
    assert ask("list", kind="hint", q="edit precondition")["total"] == 1


def test_what_is_gone_from_the_funnel_leads_to_a_list(ask):
    rows = {row["noun"]: row for row in ask("run")["funnel"]}
    (drop,) = rows["pairs"]["drops"]
    assert drop == {"reason": "no_majority", "count": 1, "filters": {"page": "sites", "verdict": "no_majority"}}
    filters = {name: value for name, value in drop["filters"].items() if name != "page"}
    assert ask("list", kind="site", **filters)["total"] == 1


def test_a_blind_site_tells_no_name_before_the_vote(tmp_path, site):
    library = Library([viewed_run(tmp_path / "run").path])

    def ask_as(who):
        return library.answer("run", "site", {"id": site.site_id, "blind": "1"}, who)

    hidden = ask_as("me")
    text = encoded({key: hidden[key] for key in ("replies", "pair", "agreement", "votes", "training")}).decode()
    assert [reply["name"] for reply in hidden["replies"]] == ["A", "B", "C"]
    assert not any(f"{family}/big" in text for family in FAMILIES)
    assert hidden["pair"] is None
    library.vote("run", {"site": site.site_id, "choice": "actor"}, "you")
    assert ask_as("me")["votes"] == {"mine": None, "tally": None}
    library.vote("run", {"site": site.site_id, "choice": "B", "blind": True}, "me")
    told = ask_as("me")
    assert {reply["teacher"] for reply in told["replies"]} == {f"{family}/big" for family in FAMILIES}
    assert told["votes"]["mine"]["choice"] in {reply["key"] for reply in told["replies"]}
    assert sum(told["votes"]["tally"].values()) == 2
    library.vote("run", {"site": site.site_id, "choice": "none"}, "me")
    assert ask_as("me")["votes"]["tally"] == {"actor": 1, "none": 1}
    lines = (tmp_path / "run/annotations/human.jsonl").read_text().splitlines()
    assert len(lines) == 3, "a vote is added, never changed"
    for wrong in (
        {},
        [],
        {"site": site.site_id, "choice": "Z"},
        {"site": "no", "choice": "A"},
        {"site": 1, "choice": 2},
    ):
        with pytest.raises(UsageError):
            library.vote("run", wrong, "me")


def test_a_vote_after_a_torn_line_counts(tmp_path):
    add_vote(tmp_path, "s", "tie", "me", blind=False)
    path = tmp_path / HUMAN
    path.write_bytes(path.read_bytes() + b'{"at": "2026", "target": {"ki')
    add_vote(tmp_path, "s", "none", "you", blind=False)
    add_vote(tmp_path, "s", "actor", "they", blind=False)
    assert tally(votes_on(tmp_path, "s")) == {"tie": 1, "none": 1, "actor": 1}
    assert b"\n\n" not in path.read_bytes()


def test_a_vote_is_written_whole_also_in_pieces(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr("os.write", lambda descriptor, data: write(descriptor, data[:7]))
    add_vote(tmp_path, "s", "tie", "me", blind=False, note="of more than seven bytes")
    assert votes_on(tmp_path, "s")["me"]["note"] == "of more than seven bytes"


@pytest.mark.parametrize("value", [{}, {"value": None}, {"value": "tie"}, {"value": {"note": "no choice"}}])
def test_a_line_that_holds_no_vote_is_left_out(tmp_path, value):
    add_vote(tmp_path, "s", "tie", "me", blind=False)
    odd = {"target": {"kind": "site", "id": "s"}, "label": "vote", "who": "you", **value}
    with (tmp_path / HUMAN).open("a") as file:
        file.write(json.dumps(odd) + "\n")
    assert tally(votes_on(tmp_path, "s")) == {"tie": 1}


def test_the_letters_of_a_blind_site_lead_to_the_same_reply(tmp_path, ask, site):
    library = Library([viewed_run(tmp_path / "run").path])
    hidden = library.answer("run", "site", {"id": site.site_id, "blind": "1"}, "me")["replies"]
    told = {
        json.dumps(reply["action"]) + reply["text"]: reply["key"] for reply in ask("site", id=site.site_id)["replies"]
    }
    for reply in hidden:
        state = library.vote("run", {"site": site.site_id, "choice": reply["name"]}, "me")
        assert state["mine"]["choice"] == told[json.dumps(reply["action"]) + reply["text"]]


def test_tokens_join_the_channels_of_a_row(ask):
    (row,) = ask("tokens", id="1-abcdefabcdefabcd")["rows"]
    assert row["channels"] == {"policy": [0.0, 0.25], "sdpo": [0.0, 0.125]}
    assert (row["pieces"], row["mask"], row["entropy"]) == (["do", "ne"], [0, 1], [0.0, 0.5])


def test_training_is_read_while_it_is_written(ask, run):
    assert [row["step"] for row in ask("training")["rows"]] == [1, 2], "a torn line is left out"
    assert ask("training")["live"]
    assert [row["step"] for row in ask("training", after="1")["rows"]] == [2]


def test_a_run_that_is_being_trained_says_so_and_not_what_is_next(tmp_path):
    run = viewed_run(tmp_path / "run")
    (run.path / "training" / "manifest.json").unlink(missing_ok=True)
    library = Library([run.path])

    def asked():
        return library.answer("run", "run", {}, "")

    steps = run.config.training.steps
    command = f"recompose train {run.path}"
    assert (asked()["now"], asked()["next"]) == (None, command)
    with run.lock():
        assert asked()["now"] == "another command works on this run" and asked()["next"] is None
        write_atomically(run.path / "training" / "windows.jsonl", "")
        assert asked()["now"] == f"training, step 3 of {steps}"
        told = recompose("show", run.path).stdout
        assert f"now: training, step 3 of {steps}\n" in told and "next:" not in told
    assert (asked()["now"], asked()["next"]) == (None, command)
    library.close()


def test_looking_who_works_on_a_run_keeps_nobody_from_it(tmp_path):
    run = viewed_run(tmp_path / "run")
    with (run.path / LOCK).open("a+") as looked:
        fcntl.flock(looked, fcntl.LOCK_SH)
        Timer(0.02, looked.close).start()
        with run.lock():
            assert run.is_in_use()


def test_search_finds_substrings_in_every_kind(ask):
    found = ask("search", q="PARAMETER `promp")["results"]
    assert {each["kind"] for each in found} >= {"trace", "site"}
    place = next(each for each in found if each["kind"] == "trace")
    assert place["turn"] == 2
    assert place["match"].lower() == "parameter"
    assert ask("search", q='"required parameter"', kind="site")["results"]
    assert not ask("search", q='"parameter required"')["results"]
    assert ask("search", q="最新の状態")["results"], "words need no spaces"
    assert ask("search", q="I am kimi")["results"][0]["kind"] == "reply"
    for short in ("", "ab", "a b c"):
        with pytest.raises(UsageError):
            ask("search", q=short)
    assert ask("search", q='qq"" OR * NEAR(')["results"] == []


def test_search_marks_what_it_found_behind_a_letter_that_is_longer_in_lower_case(tmp_path):
    run = viewed_run(tmp_path / "run")
    add_trace(run, long_trace(1, "İİİ İstanbul zebra"))
    library = Library([run.path])
    for text in ("zebra", "İstanbul"):
        assert library.answer("run", "search", {"q": text})["results"][0]["match"] == text
    library.close()


def test_search_for_a_null_character_finds_nothing(ask):
    assert ask("search", q="abc\0def")["results"] == []


def test_a_stage_that_is_made_again_is_read_and_indexed_again(tmp_path):
    run = viewed_run(tmp_path / "run")
    library = Library([run.path])
    assert not library.answer("run", "search", {"q": "zebra crossing"})["results"]
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file() and "cache" not in path.parts}
    add_trace(run, long_trace(3, "zebra crossing"))
    found = library.answer("run", "search", {"q": "zebra crossing", "limit": "10"})
    assert len(found["results"]) == 4
    assert found["results"][1]["turn"] == 0
    changed = {path.name for path, data in before.items() if not path.exists() or path.read_bytes() != data}
    assert changed == {RECORDS, SHARDS, "manifest.json"}, "only what the test itself made again"
    assert library.answer("run", "list", {"kind": "trace"})["total"] == 2


def test_the_index_lets_others_write_and_goes_on_inside_a_trace(tmp_path, monkeypatch):
    monkeypatch.setattr("composer_replication.viewer.search.TURN_S", 0.0)
    run = viewed_run(tmp_path / "run")
    add_trace(run, long_trace(70, "zebra"))
    library = Library([run.path])
    while library.answer("run", "search", {"q": "zebra"})["indexing"]:
        pass
    found = library.answer("run", "search", {"q": "zebra", "limit": "200"})["results"]
    assert [each["message"] for each in found] == [0, *range(1, 141, 2)], "every message once"


def test_a_window_of_a_very_long_trace_is_quick(tmp_path, monkeypatch):
    """Put into the cache as it is: making and reading 100,000 turns takes seconds that say nothing about a window."""
    library = Library([viewed_run(tmp_path / "run").path])
    library.answer("run", "list", {"kind": "trace"})
    monkeypatch.setattr("composer_replication.viewer.lookup.fill", lambda *_: None)
    number, head = 100_000, library.views["run"].first("kind = 'trace'")
    messages = [{"role": "assistant", "content": f"turn {place}"} for place in range(number)]
    turns = [{"start": place, "end": place + 1} for place in range(number)]
    facts = {**head.facts, "turns": number, "messages": number}
    entry = CacheEntry("trace", "long", facts, head.body, "long", parts=(("m", messages), ("t", turns)))
    library.views["run"].cache.replace("long", "mark", [entry])
    started = time.process_time()
    for start in (0, 50_000, 99_980):
        window = library.answer("run", "trace", {"id": "long", "from": str(start), "to": str(start + 20)})
        assert [turn["messages"][0]["content"] for turn in window["turns"]] == [f"turn {start + n}" for n in range(20)]
        assert window["n_turns"] == number
        encoded(window)
    assert time.process_time() - started < 0.15, "a twentieth of a second for each"


def test_hostile_text_is_inert_in_every_answer(tmp_path):
    run = viewed_run(tmp_path / "run")
    add_trace(run, trace := long_trace(2, HOSTILE.replace("\ud83d", "")))
    library = Library([run.path])
    for name, query in (("trace", {"id": trace.trace_id}), ("search", {"q": "gnp.exe"}), ("list", {"kind": "trace"})):
        answer = encoded(library.answer("run", name, query)).decode()
        assert "<script>" in answer, "the page shows it as text"
        assert not any(char in answer for char in "\x1b\x07\u202e\u200b\x9b\U000e0041")
        assert "\\u001b" not in answer
    assert render_action(trace.messages[1]) != visible(render_action(trace.messages[1]))


@pytest.mark.parametrize("arguments", ['{"a": "\\ud83d"}', '{"a":' * 700 + "1" + "}" * 700, "[" * 90000, '{"a": NaN}'])
def test_odd_arguments_of_a_call_do_not_end_the_viewer(tmp_path, arguments):
    run, trace = viewed_run(tmp_path / "run"), long_trace(1, "odd")
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    odd = ({"role": "assistant", "content": "odd", "tool_calls": [call]},)
    add_trace(run, trace.model_copy(update={"messages": trace.messages[:1] + odd, "turns": (Turn(start=1, end=2),)}))
    library = Library([run.path])
    window = library.answer("run", "trace", {"id": trace.trace_id})
    assert encoded(window)
    assert window["turns"][0]["messages"][0]["tool_calls"][0]["arguments"] == arguments
    assert library.answer("run", "search", {"q": "odd"})["results"]
    assert recompose("show", run.path, f"{trace.trace_id}:0").returncode == 0
    assert recompose("show", run.path, trace.trace_id).returncode == 0


def test_a_run_that_cannot_be_written_is_shown_all_the_same(tmp_path, monkeypatch):
    run = viewed_run(tmp_path / "run")
    monkeypatch.setattr("os.access", lambda *_: False)
    library = Library([run.path])
    assert library.answer("run", "list", {"kind": "site"})["total"] == 2
    assert not (run.path / "cache").exists()


def test_a_damaged_cache_is_made_again(tmp_path):
    run = viewed_run(tmp_path / "run")
    (run.path / "cache").mkdir()
    (run.path / "cache/viewer.sqlite").write_bytes(b"not a database" * 1000)
    assert Library([run.path]).answer("run", "list", {"kind": "site"})["total"] == 2


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_a_cache_that_is_a_link_is_not_followed(tmp_path, ending):
    """A run may come from anybody: its cache may point to another program's database."""
    (tmp_path / "run/cache").mkdir(parents=True)
    outside = tmp_path / "outside.sqlite"
    with closing(sqlite3.connect(outside)) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
    before = outside.read_bytes()
    (tmp_path / f"run/cache/viewer.sqlite{ending}").symlink_to(outside)
    cache = Cache(Run(tmp_path / "run", Config()))
    assert cache.marks() == {}
    cache.close()
    assert outside.read_bytes() == before
    assert not cache.path.is_symlink()


def test_a_cache_that_another_process_holds_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("composer_replication.viewer.cache.BUSY_TIMEOUT_S", 0.01)
    (tmp_path / "cache").mkdir()
    path = tmp_path / "cache/viewer.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        inode = path.stat().st_ino
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            Cache(Run(tmp_path, Config()))
        assert path.stat().st_ino == inode


def test_a_cache_that_finds_no_room_says_so_and_fills_itself_later(tmp_path):
    cache = Cache(Run(tmp_path, Config()))
    full = cache.rows("PRAGMA page_count")[0][0]
    cache.db.execute(f"PRAGMA max_page_count={full}")
    entries = [CacheEntry("site", f"{number}", {"text": "x" * 5000}, {}) for number in range(9)]
    with pytest.raises(RecomposeError, match=r"viewer.sqlite cannot be written: database or disk is full; next: make"):
        cache.replace("sites", "1", entries)
    assert cache.marks() == {} and cache.rows("SELECT id FROM records") == []
    cache.db.execute("PRAGMA max_page_count=9999")
    cache.replace("sites", "1", entries)
    assert len(cache.rows("SELECT id FROM records")) == 9


@pytest.mark.parametrize("statement", ["PRAGMA user_version=99", "CREATE TABLE records (x)"])
def test_a_cache_of_another_version_is_made_again(tmp_path, statement):
    (tmp_path / "cache").mkdir()
    with closing(sqlite3.connect(tmp_path / "cache/viewer.sqlite")) as db:
        db.execute(statement)
        db.commit()
    assert Cache(Run(tmp_path, Config())).rows("SELECT id FROM records") == []


FIXTURES = Path(__file__).parents[2] / "viewer" / "fixtures"


EXAMPLES = "run agreement trace site reply pair rollout tokens training monitor finding show votes".split()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_that_the_page_is_built_against_have_the_fields_of_today(ask, name):
    ids = {
        "trace": "trace_id",
        "site": "site_id",
        "reply": "key",
        "pair": "pair_id",
        "rollout": "id",
        "finding": "finding_id",
    }
    query = {"id": ask("list", kind=name)["rows"][0][ids[name]]} if name in ids else {}
    site_id = ask("list", kind="site")["rows"][0]["site_id"]
    query |= {"show": {"id": site_id}, "votes": {"site": site_id}}.get(name, {})
    examples = [json.loads(path.read_text())["answer"] for path in sorted(FIXTURES.glob(f"{name}-[0-9]*.json"))]
    assert len(examples) >= 2
    assert set(ask(name, **query)) == set(examples[0])
