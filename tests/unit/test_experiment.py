"""`recompose experiment run`, and the arithmetic of experiment 001: what is cached, what is left out, what it costs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from composer_replication.cli.experiment import experiment
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.llm.pricing import Prices
from composer_replication.records import Source, Trace, Turn
from composer_replication.replay import State, Teacher

COST = Path(__file__).parents[2] / "experiments" / "001-cost"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"cost_{name}", COST / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


pricing = load("pricing")


def trace(name: str = "t", family: str | None = None) -> Trace:
    """Three turns; a long first message, then short ones."""
    messages = [{"role": "user", "content": "x" * 40_000}]
    for turn in range(3):
        messages += [{"role": "assistant", "content": f"{turn}"}, {"role": "user", "content": "go on"}]
    turns = tuple(Turn(start=1 + 2 * turn, end=2 + 2 * turn, family=family) for turn in range(3))
    return Trace(trace_id=name, source=Source(agent="test"), messages=tuple(messages), turns=turns)


def states(*traces: Trace) -> list[State]:
    return [State(trace, turn) for trace in traces for turn in range(3)]


TEACHER = Teacher("qwen/a", "http://127.0.0.1:1/v1", prices=Prices(1_000_000, 0), cached_micros=100_000)


def test_a_prompt_repeats_what_its_trace_asked_before_and_no_other_trace():
    asked = pricing.prompts(states(trace("a"), trace("b")))
    assert [prompt.repeated_tokens for prompt in asked][::3] == [0, 0]
    assert asked[1].repeated_tokens == asked[0].tokens
    assert asked[2].repeated_tokens == asked[1].tokens
    assert asked[0].tokens == pytest.approx(40_000 * pricing.TOKENS_PER_BYTE, rel=0.01)


def test_the_order_of_the_states_makes_no_difference():
    there, back = states(trace("a"), trace("b")), states(trace("b"), trace("a"))[::-1]
    assert pricing.cost_micros(pricing.prompts(there), [TEACHER], cached=True) == pricing.cost_micros(
        pricing.prompts(back), [TEACHER], cached=True
    )


def test_cached_tokens_cost_the_cached_price():
    asked = pricing.prompts(states(trace()))
    fresh = asked[0].tokens + sum(prompt.tokens - prompt.repeated_tokens for prompt in asked[1:])
    repeated = sum(prompt.repeated_tokens for prompt in asked)
    assert pricing.cost_micros(asked, [TEACHER], cached=False) == fresh + repeated
    assert pricing.cost_micros(asked, [TEACHER], cached=True) == pytest.approx(fresh + repeated / 10, abs=1)
    unknown = TEACHER._replace(cached_micros=None)
    assert pricing.cost_micros(asked, [unknown], cached=True) == fresh + repeated
    writes = TEACHER._replace(cache_write_micros=2_000_000)
    assert pricing.cost_micros(asked, [writes], cached=True) == pytest.approx(2 * fresh + repeated / 10, abs=1)


def test_an_answer_is_paid_too():
    [prompt, *_] = asked = pricing.prompts(states(trace())[:1])
    dear = TEACHER._replace(prices=Prices(1_000_000, 2_000_000))
    assert pricing.cost_micros(asked, [dear], cached=False) == prompt.tokens + 2 * pricing.ANSWER_TOKENS


def test_a_teacher_is_not_asked_about_its_own_family_or_beyond_its_context():
    asked = pricing.prompts(states(trace(family="qwen")))
    assert pricing.cost_micros(asked, [TEACHER], cached=False) == 0
    assert pricing.cost_micros(asked, [TEACHER], cached=False, exclude=False) > 0
    asked = pricing.prompts(states(trace()))
    assert pricing.cost_micros(asked, [TEACHER._replace(context_tokens=10_000)], cached=False) == 0


def test_the_synthetic_states_are_as_long_as_the_origins():
    traces = load("states").synthetic_traces()
    tokens = [prompt.tokens for prompt in pricing.prompts([State(trace, 0) for trace in traces])]
    assert len(tokens) == 50
    assert 250 <= min(tokens) <= max(tokens) <= 500
    assert len({json.dumps(trace.messages) for trace in traces}) == 50


def script(folder: Path, text: str) -> Path:
    (folder / "run.py").write_text(text)
    return folder


def run(*arguments: str) -> None:
    experiment(["run", *arguments], exit_on_error=False, result_action="return_value")


def test_running_an_experiment_names_its_results(tmp_path, capfd):
    text = "from pathlib import Path\nprint('working')\nfolder = Path(__file__).parent / 'results'\n"
    folder = script(tmp_path, text + "folder.mkdir()\n(folder / 'a.json').write_text('{}')\n")
    run(str(folder), "--json")
    out, err = capfd.readouterr()
    assert json.loads(out) == {"experiment": tmp_path.name, "results": [str(tmp_path / "results" / "a.json")]}
    assert "working" in err


def test_results_in_folders_are_named_by_their_folder(tmp_path, capfd):
    text = "from pathlib import Path\nfolder = Path(__file__).parent / 'results' / 'main'\n"
    run(str(script(tmp_path, text + "folder.mkdir(parents=True)\n(folder / 'grpo-1.jsonl.zst').touch()\n")))
    assert capfd.readouterr().out == f"results: {tmp_path / 'results' / 'main'}\n"


def test_a_failed_experiment_says_so(tmp_path):
    with pytest.raises(RecomposeError, match="exit code 3"):
        run(str(script(tmp_path, "raise SystemExit(3)")))


def test_a_folder_without_a_script_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"no run\.py"):
        run(str(tmp_path))


def test_words_for_a_script_that_reads_none_are_refused(tmp_path, capfd):
    plain = script(tmp_path, "print('ran')")
    with pytest.raises(UsageError, match=r"run\.py takes no words, and was given --bogus"):
        run(str(plain), "--bogus")
    reading = script(tmp_path, "import sys\nprint(sys.argv[1:])")
    run(str(reading), "--seed", "3")
    out, _ = capfd.readouterr()
    assert "['--seed', '3']" in out
    assert "ran" not in out


def test_a_folder_without_the_script_names_those_that_have_it(tmp_path):
    for name, file in (("a", "rebuild.py"), ("b", "run.py"), ("c", "rebuild.py")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    for folder in (tmp_path / "b", tmp_path / "nowhere", tmp_path):
        with pytest.raises(UsageError) as caught:
            experiment(["rebuild", str(folder)], exit_on_error=False, result_action="return_value")
        with_one = f"recompose experiment rebuild with one of {tmp_path / 'a'}, {tmp_path / 'c'}"
        assert caught.value.next_command == with_one
