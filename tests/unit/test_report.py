from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from composer_replication.evaluation.charts import line_chart, points, ticks
from composer_replication.evaluation.compare import TaskOutcome, compare, repositories_of, rows_left_out
from composer_replication.evaluation.report import (
    ComparisonRow,
    Example,
    FunnelRow,
    LossPoint,
    ReportData,
    dollars,
    duration,
    render_report,
    verdict,
)
from composer_replication.evaluation.stats import Estimate, mean_interval, paired_difference
from composer_replication.evaluation.summary import told_repositories

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script></svg>'
VOID = {"meta", "rect", "line", "circle", "polyline"}
LOADING = {"src", "href", "xlink:href", "srcset", "data", "action", "background", "poster"}


class Page(HTMLParser):
    """Parses a page, insists on balanced tags, and remembers what it saw."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def make_data(**changes: Any) -> ReportData:
    before, after = [0.0] * 12 + [1.0] * 8, [0.0] * 4 + [1.0] * 16
    heldout = ComparisonRow(
        split="heldout",
        label="Held-out tasks",
        before=mean_interval(before),
        after=mean_interval(after),
        difference=paired_difference(before, after),
        headline=True,
    )
    values: dict[str, Any] = {
        "title": "A small run",
        "environment": "toolbox",
        "config_hash": "ab" * 32,
        "seed": 3,
        "model_name": "tiny",
        "funnel": [
            FunnelRow(label="Traces", count=1234, note="from rollouts"),
            FunnelRow(label="Teacher replies", count=96, simulated=True),
        ],
        "losses": [
            LossPoint(step=i, losses={"policy": 0.1 * i, **({} if i == 4 else {"replay": 0.7})}, reward=0.5)
            for i in range(30)
        ],
        "error_kinds_before": {"type_error": 10, "json_decode": 5},
        "error_kinds_after": {"type_error": 4, "timeout": 1},
        "turns_before": 200,
        "turns_after": 160,
        "comparisons": [heldout],
        "examples": [Example(task="t", turn_before="bad", error="no tool", hint="Reminder", chosen="good")],
        "skipped": {"no majority": 7},
        "spent_micros": 1_250_000,
        "stage_seconds": {"ingestion": 1.5, "training": 75.0},
        "notes": ["Teachers are simulated: noisy oracles of the environment."],
    }
    return ReportData(**(values | changes))


def too_much() -> ReportData:
    """Longer lists and texts than a page can show at once, and words that nothing breaks."""
    kinds = {f"kind_{number}": 40 - number for number in range(30)}
    turn = "\n".join([*(f"line {number} {'x' * 300}" for number in range(60)), "the last line of a long turn"])
    example = Example(task="do it " * 400, turn_before=turn, error=f"type_error: {'y' * 900}", hint="h", chosen="c")
    return make_data(
        environment="package.module:" + "Environment" * 20,
        model_name="org/" + "m" * 200,
        funnel=[FunnelRow(label="traces" * 10, count=10**9, note="many " * 200, simulated=True)],
        error_kinds_before=kinds,
        error_kinds_after=kinds,
        skipped=kinds,
        examples=[example] * 4,
        stage_seconds={"s" * 80: 1e6},
    )


EMPTY: dict[str, Any] = {
    "funnel": [],
    "losses": [],
    "error_kinds_before": {},
    "error_kinds_after": {},
    "turns_before": 0,
    "turns_after": 0,
    "comparisons": [],
    "examples": [],
    "skipped": {},
    "spent_micros": 0,
    "stage_seconds": {},
    "notes": [],
}


def test_numbers_are_on_the_page() -> None:
    text = Page(render_report(make_data())).text
    for number in ("40.0 %", "80.0 %", "+40.0", "1,234", "96", "$1.25", "1 min 15 s", "5.0", "2.5", "abababababababab"):
        assert number in text
    assert text.count("simulated") >= 3


def test_the_page_names_what_was_measured_where() -> None:
    page = Page(render_report(make_data(environment="openenv")))
    assert "Environmentopenenv" in page.text.replace("\n", "")
    assert "openenv, tiny, seed 3: run report" in page.text


def test_long_lists_are_folded_and_short_ones_are_not() -> None:
    assert Page(render_report(make_data(examples=[]))).tags.count("details") == 0
    page = Page(render_report(too_much()))
    assert page.text.count("22 more") == 2
    assert page.text.count("characters") == 12, "three long texts of each of four examples"


def test_a_bar_is_as_long_as_its_share_and_an_interval_stands_where_it_is() -> None:
    html = render_report(make_data())
    assert "--share: 0.0778" in html, "96 of 1,234"
    assert 'class="dot before" style="left: 40.00%"' in html
    assert 'class="dot after" style="left: 80.00%"' in html


def test_page_asks_for_nothing() -> None:
    html = render_report(make_data())
    page = Page(html)
    assert "http://" not in html and "https://" not in html and "url(" not in html and "@import" not in html
    assert not LOADING & {name for name, _ in page.attributes}
    assert "script" not in page.tags
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in html


def test_every_chart_has_a_title() -> None:
    page = Page(render_report(make_data()))
    assert page.tags.count("svg") == 3
    assert page.tags.count("title") == page.tags.count("svg") + 1
    assert page.tags.count("desc") == page.tags.count("svg")


def test_hostile_text_stays_text() -> None:
    comparison = make_data().comparisons[0].model_copy(update={"label": HOSTILE, "split": HOSTILE})
    data = make_data(
        title=HOSTILE,
        environment=HOSTILE,
        config_hash=HOSTILE,
        model_name=HOSTILE,
        funnel=[FunnelRow(label=HOSTILE, count=1, note=HOSTILE)],
        error_kinds_before={HOSTILE: 1},
        comparisons=[comparison],
        examples=[Example(task=HOSTILE, turn_before=HOSTILE, error=HOSTILE, hint=HOSTILE, chosen=HOSTILE)],
        skipped={HOSTILE: 1},
        stage_seconds={HOSTILE: 1.0},
        notes=[HOSTILE],
    )
    page = Page(render_report(data))
    assert not {"img", "script"} & set(page.tags)
    assert not {"src", "onerror"} & {name for name, _ in page.attributes}
    assert HOSTILE in page.text


@pytest.mark.parametrize(
    "changes",
    [
        EMPTY,
        {"losses": []},
        {"losses": [LossPoint(step=1, losses={"policy": 0.5})]},
        {"losses": [LossPoint(step=i, losses={"policy": float("nan"), "sdpo": 0.0}) for i in range(3)]},
        {"funnel": [FunnelRow(label="Traces", count=0)]},
        {"error_kinds_before": {"type_error": 0}, "error_kinds_after": {}, "turns_before": 0, "turns_after": 0},
        {"stage_seconds": {"sites": 0.0}},
    ],
)
def test_sparse_data_renders(changes: dict[str, Any]) -> None:
    html = render_report(make_data(**changes))
    Page(html)
    assert "NaN" not in html and '"nan"' not in html


def test_no_simulated_mark_without_simulated_rows() -> None:
    html = render_report(make_data(funnel=[FunnelRow(label="Teacher replies", count=2)], notes=[]))
    assert "simulated" not in html


def test_three_tasks_that_did_not_change_show_no_interval_of_a_difference() -> None:
    nothing = [0.0] * 3
    row = ComparisonRow(
        split="heldout",
        label="Held-out tasks",
        before=mean_interval(nothing),
        after=mean_interval(nothing),
        difference=paired_difference(nothing, nothing),
        headline=True,
    )
    page = Page(render_report(make_data(comparisons=[row])))
    assert page.text.count("too few to tell") == 4 and "on the same 3 tasks" in page.text
    assert "95 % interval 0" not in page.text and ("class", "line delta") not in page.attributes
    assert row.difference.told() == "too few to tell"


def test_verdict_claims_no_more_than_the_interval() -> None:
    assert verdict(Estimate(mean=0.1, lo=0.01, hi=0.2, n=9)) == "better"
    assert verdict(Estimate(mean=-0.1, lo=-0.2, hi=-0.01, n=9)) == "worse"
    assert verdict(Estimate(mean=0.1, lo=0.0, hi=0.2, n=9)) == "no clear change"
    assert verdict(Estimate(mean=0.5, lo=0.1, hi=0.9, n=4)) == "too few to tell"
    assert verdict(Estimate(mean=0.0, lo=0.0, hi=0.0, n=90)) == "all alike"


def test_panels_that_hold_nothing_are_left_out() -> None:
    losses = [LossPoint(step=i, losses={"policy": 0.1, "sdpo": 0.2}, reward=0.5) for i in range(3)]
    text = Page(render_report(make_data(examples=[], funnel=[FunnelRow(label="steps", count=3)], losses=losses))).text
    assert "Channel 2 · SDPO loss" in text and "Reward · mean" in text and "TR-DPO" not in text
    assert "A few error sites" not in text and "From traces" not in text and "Training steps" in text
    stored = Page(render_report(make_data(losses=[LossPoint(step=1, losses={"own": 0.1})]))).text
    assert "Channel 4 · own loss" in stored and "Reward · mean" not in stored


def test_rates_of_few_turns_are_not_shown() -> None:
    few = Page(render_report(make_data(turns_before=200, turns_after=29))).text
    assert "200 turns before and\n    29 after" in few and "Rates are shown from 30 turns on" in few
    assert "type_error" not in few and "type_error" in Page(render_report(make_data(turns_after=30))).text


def outcome(task: str, phase: str, **labels: str) -> TaskOutcome:
    return TaskOutcome(task_id=task, split="heldout", phase=phase, reward=0.0, turns=1, errors=(), labels=labels)


def test_rows_of_few_tasks_and_rows_that_repeat_another_are_left_out() -> None:
    outcomes = [
        outcome(f"t{n}", phase, mode="stub", difficulty="easy" if n < 6 else "hard", grain="one" if n < 6 else "two")
        for n in range(9)
        for phase in ("before", "after")
    ]
    assert [row.split for row in compare(outcomes, {})] == ["heldout", "heldout, difficulty easy"]
    assert rows_left_out(outcomes) == 3, "two of three tasks, and one that repeats"


def of_repositories(number: int) -> list[TaskOutcome]:
    """Four tasks of each; training lets every other repository's pass."""
    return [
        outcome(f"r{n}t{m}", phase, repository=f"r{n}").model_copy(
            update={"reward": float(phase == "after" and n % 2 == 0)}
        )
        for n in range(number)
        for m in range(4)
        for phase in ("before", "after")
    ]


def test_an_interval_over_enough_repositories_draws_whole_ones() -> None:
    """As `evaluate --compare` does: 32 tasks that change by repository are eight changes."""
    before, after = [0.0] * 32, [float(n % 2 == 0) for n in range(8) for _ in range(4)]
    found, over_tasks = compare(of_repositories(8), {})[0].difference, paired_difference(before, after)
    assert (found.mean, found.n) == (over_tasks.mean, 32)
    assert found.hi - found.lo > 1.8 * (over_tasks.hi - over_tasks.lo)
    (sentence,) = told_repositories(repositories_of(of_repositories(8)))
    assert sentence == "Tasks of one repository are alike: whole ones of the 8 are drawn for the difference's interval."


def test_an_interval_over_few_repositories_is_about_these_and_says_so() -> None:
    three = of_repositories(3)
    changes = [float(n % 2 == 0) for n in range(3) for _ in range(4)]
    assert compare(three, {})[0].difference == paired_difference([0.0] * 12, changes)
    (sentence,) = told_repositories(repositories_of(three))
    assert sentence == "Tasks of 3 repositories, too few to draw: the difference's interval is about these alone."
    assert told_repositories(repositories_of(of_repositories(1))) == []


def test_repositories_that_some_task_does_not_tell_are_neither_drawn_nor_told() -> None:
    outcomes = [*of_repositories(8), outcome("t", "before"), outcome("t", "after")]
    changes = [float(n % 2 == 0) for n in range(8) for _ in range(4)]
    assert compare(outcomes, {})[0].difference == paired_difference([0.0] * 33, [*changes, 0.0])
    assert told_repositories(repositories_of(outcomes)) == []


def test_what_is_alike_is_not_called_few() -> None:
    """One threshold: what the dry run calls enough is not too few here."""
    assert Estimate(mean=0.0, lo=0.0, hi=0.0, n=5).told() == "all alike"
    assert Estimate(mean=0.0, lo=0.0, hi=0.0, n=4).told() == "too few to tell"


def test_equal_runs_render_the_same_page() -> None:
    assert render_report(make_data()) == render_report(make_data())


def test_ticks_are_round_and_cover_the_range() -> None:
    assert ticks(0, 768) == [0, 200, 400, 600, 800]
    assert ticks(-0.028, 0.278, 4) == [-0.1, 0, 0.1, 0.2, 0.3]
    assert ticks(5, 5)[0] < 5 < ticks(5, 5)[-1]


def test_line_breaks_at_a_gap() -> None:
    svg = line_chart("loss", [(0, 1.0), (1, 2.0), (2, None), (3, 1.0), (4, 2.0), (5, None), (6, 1.5)], "policy")
    assert svg.count("<polyline") == 2 and svg.count("<circle") == 1


def test_formats() -> None:
    assert [dollars(micros) for micros in (0, 1_500, 2_340_000)] == ["$0.00", "$0.0015", "$2.34"]
    assert [duration(s) for s in (0.25, 59.96, 75, 3725)] == ["0.2 s", "1 min 00 s", "1 min 15 s", "1 h 02 min"]
    assert [points(share) for share in (0.1234, -0.0004, -0.05)] == ["+12.3", "0.0", "−5.0"]


def test_an_axis_has_labels_that_fit_where_a_loss_hardly_moves():
    drawn = line_chart("x", [(1, 0.6931470), (2, 0.6931472)], "sdpo")
    labels = re.findall(r'class="tick"[^>]*>([\d.]+)<', drawn)
    assert labels and all(len(label) <= 6 for label in labels), labels
