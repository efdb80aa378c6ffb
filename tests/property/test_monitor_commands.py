"""No text makes the command layer raise or dwell: shell, Python, patches, tool calls."""
# ruff: noqa: E501 - cases are easier to read unbroken

import gc
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from composer_replication.monitor.acts import acts_of_steps
from composer_replication.monitor.conduct import Conduct, ToolStep
from composer_replication.monitor.python.source import python_acts
from composer_replication.monitor.rules.table import command_signs
from composer_replication.monitor.shell.script import parse_shell
from composer_replication.monitor.steps import steps_of
from composer_replication.records import Source, Trace, Turn

LIMIT_S = 1.0
KB20 = 20_000
SHELL_PIECES = st.sampled_from(
    "$( ) ` ' \" \\ { } ; & | && || < > <<EOF\n EOF\n <<< ( ) [[ ]] if then fi for x in do done while case esac function "
    "$x ${x:-y} ${x//a/b} $((1+1)) $'\\x41' {a,b} {1..9} x=1 export eval bash -c xargs find . -exec cat {} + rm git log "
    "python - -c 'import os' echo printf %b base64 -d tr a-z rev cd .. /tmp * ? ~ \n # ! 2>&1 &> nohup disown é \0".split(
        " "
    )
)
PYTHON_PIECES = st.sampled_from(
    "import os\n|from x import y\n|x = |'a' + |open(|)|[|]|(|f'{x}'|for x in |:\n    |def f(x):\n    return x\n|f(f)|lambda x: x|"
    "exec(|chr(|b'a'|.join(|map(chr, [1])|x += 'a'\n|getattr(os, 'a')|__import__('o' + 's')|'%s' % |'{}'.format(|[::-1]|"
    "os.walk('.')|subprocess.run(|\n|    |if |not |class A: pass\n|*|x[0]|while True:\n    pass\n|!git log\n|%%bash\n|\0|'%9999999d' % 1\n".split(
        "|"
    )
)
texts = st.one_of(
    st.text(max_size=300),
    st.lists(SHELL_PIECES, max_size=60).map(" ".join),
    st.lists(PYTHON_PIECES, max_size=60).map("".join),
)
KINDS = ("command", "python", "read", "write", "edit", "patch", "tests", "search", "other")
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(st.lists(st.tuples(st.sampled_from(KINDS), texts, texts), max_size=4))
def test_no_step_raises(parts):
    steps = tuple(
        ToolStep(number, 0, kind, kind, command=first, path=first[:40], text=second, old=second[:9])
        for number, (kind, first, second) in enumerate(parts)
    )
    assert len(acts_of_steps(steps)) == len(steps)
    assert all(sign.step in range(len(steps)) for sign in command_signs(Conduct("t", steps)))


@quick
@given(
    st.sampled_from(["bash", "str_replace_editor", "exec", "apply_patch", "read_files", "edit", "nobody_knows"]), texts
)
def test_no_tool_call_raises(name, arguments):
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    trace = Trace(trace_id="t", source=Source(agent="a"), messages=(message,), turns=(Turn(start=0, end=1),))
    assert [step.tool for step in steps_of(trace)] == [name]


NESTED = {
    "substitutions": "$(echo " * (KB20 // 8) + ")" * (KB20 // 8),
    "open substitutions": "$(" * (KB20 // 2),
    "groups": "{ " * (KB20 // 2),
    "subshells": "(" * (KB20 // 2) + ")" * (KB20 // 2),
    "quotes": "\"'" * (KB20 // 2),
    "chains": "a && " * (KB20 // 5) + "b",
    "pipes": "cat | " * (KB20 // 6) + "sh",
    "shells in shells": "bash -c 'bash -c \"" * (KB20 // 20),
    "evals": "eval " * (KB20 // 5) + "git log",
    "doubling": "x=aaaaaaaaaa; " + "x=$x$x; " * 2_000 + "echo $x",
    "loops in loops": "for a in 1 2 3 4 5 6 7 8; do " * 600,
    "functions that call": "f() { g; g; g; }; g() { h; h; h; }; h() { f; f; f; }; " * 200 + "f",
    "braces": "echo " + "{a,b,c,d}" * 2_000,
    "one long word": "a" * KB20,
    "ifs": "if a; then " * (KB20 // 11),
    "assignments": "a=1 " * (KB20 // 4),
    "here-documents": "cat <<A\nx\nA\n" * (KB20 // 12),
    "stars": "cat " + "*/" * (KB20 // 2),
    "finds": "find . -name '*.pyc' -o " * (KB20 // 24),
}  # fmt: skip
NESTED_PYTHON = {
    "brackets": "(" * KB20,
    "lists": "[" * 90 + "]" * 90,
    "sums": "x = " + "'a' + " * (KB20 // 6) + "'b'",
    "attributes": "x" + ".a" * (KB20 // 2),
    "calls": "f(" * 90 + ")" * 90,
    "names of names": "".join(f"x{n} = x{n - 1} + x{n - 1}\n" for n in range(1, 900)),
    "cycles": "".join(f"x{n} = x{(n + 1) % 900} + 'a'\n" for n in range(900)),
    "products": "\n".join(f"x{n} = a{n} if c else b{n}" for n in range(300)) + "\nopen(" + "+".join(f"x{n}" for n in range(300)) + ")",
    "functions": "".join(f"def f{n}(x): return f{n + 1}(x + x)\n" for n in range(500)) + "open(f0('a'))",
    "execs": "exec(" * 80 + "'x'" + ")" * 80,
    "wide formats": "x = '%999999999d' % 1\ny = '{:>999999999}'.format(1)\nz = 'a' * 10**12\nopen(x + y + z)",
    "additions": "x = ''\n" + "x += 'a'\n" * 1_500 + "open(x)",
    "nested loops": "".join("    " * n + f"for i{n} in range(9):\n" for n in range(18)) + "    " * 18 + "open(str(i0))",
    "long string": f"open('{'a' * KB20}')",
    "replaced": "x = 'a' * 20000\nopen(x.replace('a', x))",
}  # fmt: skip


def seconds_of(step):
    parse_shell.cache_clear()
    python_acts.cache_clear()
    # What earlier tests of this process left behind, garbage and threads, is no part of the time.
    gc.collect()
    start = time.thread_time()
    command_signs(Conduct("t", (step,)))
    return time.thread_time() - start


@pytest.mark.parametrize("name", NESTED)
def test_twenty_kilobytes_of_shell_end_soon(name):
    assert seconds_of(ToolStep(0, 0, "command", "bash", command=NESTED[name][:KB20])) < LIMIT_S


@pytest.mark.parametrize("name", NESTED_PYTHON)
def test_twenty_kilobytes_of_python_end_soon(name):
    assert seconds_of(ToolStep(0, 0, "python", "ipython", command=NESTED_PYTHON[name][:KB20])) < LIMIT_S


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(SHELL_PIECES, PYTHON_PIECES, st.text(min_size=1, max_size=8)),
    st.sampled_from(["command", "python", "patch"]),
)
def test_anything_repeated_ends_soon(piece, kind):
    text = (f"{piece} " * KB20)[:KB20]
    assert seconds_of(ToolStep(0, 0, kind, kind, command=text)) < LIMIT_S


def test_names_that_are_bound_to_each_other_again_and_again_are_followed_once():
    lines = [f"n{at} = n{(at + hop) % 40}.part" for at in range(40) for hop in (1, 2, 3)]
    started = time.process_time()
    python_acts("\n".join([*lines, "n0.system('ls')"]))
    assert time.process_time() - started < 1
