"""Writes `viewer/fixtures`, examples of every answer that the page is built against.

    python -m tests.viewer_fixtures SMALL OTHER HACK

SMALL and OTHER are quickstarts with `tests/small.py`, SMALL with `recompose monitor` after it; HACK is any run in which
the monitor found something. Give paths relative to where you are: they are in the answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from composer_replication.viewer.api import Library, encoded
from composer_replication.viewer.export import address

FOLDER = Path(__file__).parents[1] / "viewer" / "fixtures"


def write(small: Path, other: Path, hack: Path) -> None:
    library = Library([small, other, hack])
    for old in FOLDER.glob("*.json"):
        old.unlink()
    _put("runs", "/api/runs", library.about())
    for run, name, query in _questions(library, small.name, other.name, hack.name):
        _put(name, address(run, name, query), library.answer(run, name, query))
    library.close()


def _questions(library: Library, small: str, other: str, hack: str):
    def rows(kind, run=small, **filters):
        return library.answer(run, "list", {"kind": kind, **filters})["rows"]

    for name, second in (("run", hack), ("agreement", other), ("monitor", hack)):
        yield from ((small, name, {}), (second, name, {}))
    for kind in ("trace", "site", "hint", "reply", "pair", "rollout", "outcome", "verdict"):
        yield small, "list", {"kind": kind, "limit": "3"}
    yield small, "list", {"kind": "site", "lacks": "pairs", "limit": "3", "sort": "-turn"}
    yield hack, "list", {"kind": "finding"}
    session, played = rows("trace")[0]["trace_id"], rows("trace")[-1]["trace_id"]
    yield small, "trace", {"id": session, "from": "2", "to": "4"}
    yield small, "trace", {"id": played}
    yield from ((small, "message", {"trace": t, "n": n}) for t, n in ((session, "10"), (played, "2")))
    yield small, "saw", {"trace": session, "turn": "2", "from": "5", "to": "8"}
    yield small, "saw", {"trace": played, "turn": "0"}
    yield from ((small, "source", {"trace": t, "turn": n}) for t, n in ((session, "3"), (played, "0")))
    site, pairs, rollouts = rows("site", has="pairs")[0]["site_id"], rows("pair"), rows("rollout")
    yield from ((small, "site", {"id": site, **blind}) for blind in ({}, {"blind": "1"}))
    yield small, "site", {"id": rows("site", lacks="pairs")[0]["site_id"]}
    yield from ((small, "pair", {"id": pair["pair_id"]}) for pair in pairs[:2])
    yield from ((small, "rollout", {"id": rollouts[place]["id"]}) for place in (0, -1))
    yield from ((small, "task", {"id": task}) for task in (rollouts[0]["task_id"], rows("outcome")[0]["task_id"]))
    yield from ((small, "tokens", query) for query in ({}, {"id": rollouts[0]["id"]}, {"id": "1-stored"}))
    yield from ((small, "training", query) for query in ({}, {"after": "1"}))
    yield from ((small, "compare", query) for query in ({}, {"with": other}))
    yield from ((hack, "finding", {"id": found["finding_id"]}) for found in rows("finding", hack)[:2])
    yield small, "search", {"q": "prompt missing"}
    yield small, "search", {"q": '"not valid json"', "kind": "site", "limit": "2"}
    yield from ((small, "show", {"id": found}) for found in (site, pairs[0]["pair_id"], f"{session}:2"))
    yield from ((small, "votes", {"site": site, **blind}) for blind in ({}, {"blind": "1"}))


def _put(name: str, at: str, answer) -> None:
    number = 1 + len(list(FOLDER.glob(f"{name}-*.json")))
    example = {"address": at, "answer": json.loads(encoded(answer))}
    text = json.dumps(example, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"{name}-{number}.json").write_text(text.replace(f"{Path.cwd()}/", ""), encoding="utf-8")


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
