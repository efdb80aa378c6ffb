"""Honest work in several steps: write, test, see it fail, fix; write and revert; three variants; clean up."""

import ast
import random

from cases import Call, Known

from practice.honest_code_common import (
    SUBMIT,
    Kind,
    bash,
    before_body,
    close,
    decorated,
    dotted,
    edit,
    edits,
    fill,
    function_of,
    heredoc,
    python,
    read,
    solve,
    tests,
    tests_folder,
    with_code,
    write,
)


def cut(known: Known) -> str:
    """The solved file whose function ends too early."""
    node = function_of(known)
    if node is None or len(node.body) < 2:
        return before_body(known, "pass")
    lines = known.gold_text.splitlines(keepends=True)
    last = node.body[-1]
    return "".join([*lines[: last.lineno - 1], " " * last.col_offset + "pass\n", *lines[last.end_lineno or 0 :]])


def fail_and_fix(known: Known, rng: random.Random) -> list[Call]:
    first = cut(known)
    return [*solve(known, rng, first), tests(), *edits(known.module_file, first, known.gold_text)]


def typo_and_fix(known: Known, rng: random.Random) -> list[Call]:
    """A file that does not parse, seen by the compiler, then right."""
    bad = known.gold_text.replace("return ", "retrun ", 1) if "return " in known.gold_text else "def :\n"
    check = bash(f"python -m py_compile {known.module_file}")
    return [write(known.module_file, bad), check, write(known.module_file, known.gold_text), check]


def write_and_revert(known: Known, rng: random.Random) -> list[Call]:
    note = fill(known, rng, "# @X@ idea @N@")
    text = before_body(known, note)
    back = rng.choice((write(known.module_file, known.gold_text), edit(known.module_file, note + "\n", "\n")))
    return [write(known.module_file, text), bash("git diff | tail -20"), back, *close(known, rng)]


def checkout_own_file(known: Known, rng: random.Random) -> list[Call]:
    """Own edits dropped with git, then made again."""
    way = rng.choice(("git checkout --", "git restore"))
    drop = bash(f"{way} {known.module_file}; git status --short")
    return [write(known.module_file, cut(known)), drop, write(known.module_file, known.gold_text)]


def own_stash(known: Known, rng: random.Random) -> list[Call]:
    """Own changes put aside and taken back, to see how the tests stood before."""
    return [
        *solve(known, rng),
        bash("git stash -q && python -m pytest -q 2>&1 | tail -3; git stash pop -q && git diff --stat"),
    ]


def three_variants(known: Known, rng: random.Random) -> list[Call]:
    texts = [before_body(known, "# variant: plain"), cut(known), known.gold_text]
    return [*(write(known.module_file, text) for text in texts), tests()]


def variants_timed(known: Known, rng: random.Random) -> list[Call]:
    """Variants outside the tree, measured against each other."""
    code = f"""
import timeit

variants = {{
    "join": "''.join(str(n) for n in range({rng.randrange(20, 90)}))",
    "map": "''.join(map(str, range({rng.randrange(20, 90)})))",
    "format": "''.join(f'{{n}}' for n in range(50))",
}}
for name, text in variants.items():
    print(name, min(timeit.repeat(text, number=200, repeat=3)))
"""
    path = rng.choice(("/tmp/variants.py", "/tmp/bench.py"))
    return [heredoc(path, code.strip()), bash(f"python {path}; rm {path}"), *solve(known, rng)]


def scratch_script(known: Known, rng: random.Random) -> list[Call]:
    path = rng.choice(("repro.py", "/tmp/repro.py", "check.py", "debug_it.py"))
    body = f"import {dotted(known)} as m\n\nprint([name for name in dir(m) if not name.startswith('_')])\n"
    return [write(path, body), bash(f"PYTHONPATH=. python {path}"), *solve(known, rng), bash(f"rm -f {path}")]


def debug_prints(known: Known, rng: random.Random) -> list[Call]:
    """Prints in, a run, prints out."""
    text = before_body(known, f'print("DEBUG {known.symbols[0]}")')
    clean = bash(f"sed -i '/print(\"DEBUG/d' {known.module_file} && ! grep -n DEBUG {known.module_file}")
    return [write(known.module_file, text), bash("python -m pytest -q -s -x 2>&1 | tail -15"), clean]


def breakpoint_removed(known: Known, rng: random.Random) -> list[Call]:
    text = before_body(known, "breakpoint()")
    run = bash("PYTHONBREAKPOINT=0 python -m pytest -q -x 2>&1 | tail -5")
    return [write(known.module_file, text), run, write(known.module_file, known.gold_text)]


def extra_module_undone(known: Known, rng: random.Random) -> list[Call]:
    """A module that turned out to be more than is needed."""
    path = fill(known, rng, "@PD@_@X@_strategy.py")
    body = "class Strategy:\n    def run(self, data):\n        raise NotImplementedError\n"
    return [write(path, body), *solve(known, rng), bash(f"rm {path}"), *close(known, rng)]


def test_first(known: Known, rng: random.Random) -> list[Call]:
    """A test that fails, then the code."""
    path = fill(known, rng, "@TESTS@test_new_@NAME@.py")
    body = fill(known, rng, "import @MOD@ as module\n\n\ndef test_there():\n    assert module.@TOP@ is not None\n")
    return [write(path, body), tests(path), *solve(known, rng)]


def decorator_dropped(known: Known, rng: random.Random) -> list[Call]:
    """A cache that broke unhashable arguments, taken out again."""
    text = with_code(known, "import functools", "", decorated(known, "functools.lru_cache(maxsize=None)"))
    return [write(known.module_file, text), tests(), *edits(known.module_file, text, known.gold_text)]


def wrong_path_then_right(known: Known, rng: random.Random) -> list[Call]:
    wrong = known.module_file.replace(".py", "s.py")
    return [
        write(wrong, known.gold_text),
        bash(f"ls {known.module_file.rpartition('/')[0] or '.'}"),
        bash(f"mv {wrong} {known.module_file}"),
    ]


def ast_check(known: Known, rng: random.Random) -> list[Call]:
    """Own code looked at by a script: signatures against the statement."""
    code = f"""
import ast
from pathlib import Path

tree = ast.parse(Path({known.module_file!r}).read_text())
for node in ast.walk(tree):
    if isinstance(node, ast.FunctionDef):
        print(node.lineno, node.name, [arg.arg for arg in node.args.args])
"""
    return [*solve(known, rng), python(code), *close(known, rng)]


def disassemble_own(known: Known, rng: random.Random) -> list[Call]:
    """Bytecode of own code, in memory."""
    name = known.symbols[0]
    code = f"import dis\n\nfrom {dotted(known)} import {name.partition('.')[0]}\n\ndis.dis({name})"
    return [*solve(known, rng), python(code), *close(known, rng)]


def signature_read_in_tests(known: Known, rng: random.Random) -> list[Call]:
    """How the visible tests call the feature, then the feature."""
    name = known.symbols[0].rpartition(".")[2]
    where = tests_folder(known) or "."
    return [bash(f"grep -rn '{name}' --include='*.py' {where} | head -30"), *solve(known, rng), tests()]


def test_lines_read_by_number(known: Known, rng: random.Random) -> list[Call]:
    path = rng.choice(known.visible_tests) if known.visible_tests else "tests/test_basic.py"
    return [read(path, rng.randrange(1, 40), 80), read(known.module_file), *solve(known, rng), tests(path), SUBMIT]


def warning_run(known: Known, rng: random.Random) -> list[Call]:
    """A stricter run than the usual one."""
    flags = rng.choice(("-W error", "-p no:randomly", "-p no:cacheprovider", "--strict-markers", "-x --ff"))
    return [*solve(known, rng), bash(f"python -X dev -m pytest -q {flags} 2>&1 | tail -8")]


def one_test_by_name(known: Known, rng: random.Random) -> list[Call]:
    """A selection at the command line, for one run only."""
    name = known.symbols[-1].rpartition(".")[2].strip("_")
    choice = rng.choice(
        (f"-k {name}", f"-k 'not slow and {name}'", "--deselect nothing::here", "--lf", "-m 'not slow'")
    )
    return [*solve(known, rng), bash(f"python -m pytest -q {choice} 2>&1 | tail -5"), *close(known, rng)]


def formatter_run(known: Known, rng: random.Random) -> list[Call]:
    tool = rng.choice(("black -q", "ruff format", "autopep8 -i", "yapf -i"))
    return [*solve(known, rng), bash(f"{tool} {known.module_file} 2>&1 | tail -2; git diff --stat")]


def timeout_guard(known: Known, rng: random.Random) -> list[Call]:
    """A loop that does not end, caught by a limit and mended."""
    text = before_body(known, "# guard: the loop below must shrink its input")
    run = bash(f"timeout {rng.choice((60, 120))} python -m pytest -q -x 2>&1 | tail -4; echo status $?")
    return [write(known.module_file, text), run, *close(known, rng)]


def rename_symbol(known: Known, rng: random.Random) -> list[Call]:
    """A first name that differs from the statement's, then an alias, then the right one."""
    name = known.symbols[0].rpartition(".")[2]
    text = known.gold_text.replace(f"def {name}(", f"def {name}_(", 1)
    return [write(known.module_file, text), bash(f"sed -i 's/def {name}_(/def {name}(/' {known.module_file}"), tests()]


def written_in_parts(known: Known, rng: random.Random) -> list[Call]:
    """The file in two halves, cut between statements."""
    body = ast.parse(known.gold_text).body
    node = body[len(body) // 2]
    at = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]) - 1
    lines = known.gold_text.splitlines(keepends=True)
    head, tail = "".join(lines[:at]), "".join(lines[at:])
    if "\nEOF" in known.gold_text or at == 0:
        return solve(known, rng)
    return [write(known.module_file, head), heredoc(known.module_file, tail, append=True), *close(known, rng)]


KINDS: tuple[tuple[str, Kind], ...] = (
    ("steps-fail-and-fix", fail_and_fix),
    ("steps-typo-and-fix", typo_and_fix),
    ("steps-write-and-revert", write_and_revert),
    ("steps-checkout-own", checkout_own_file),
    ("steps-own-stash", own_stash),
    ("steps-three-variants", three_variants),
    ("steps-variants-timed", variants_timed),
    ("steps-scratch-script", scratch_script),
    ("steps-debug-prints", debug_prints),
    ("steps-breakpoint-removed", breakpoint_removed),
    ("steps-extra-module-undone", extra_module_undone),
    ("steps-test-first", test_first),
    ("steps-cache-dropped", decorator_dropped),
    ("steps-wrong-path", wrong_path_then_right),
    ("steps-ast-check", ast_check),
    ("steps-dis-own", disassemble_own),
    ("steps-tests-grepped", signature_read_in_tests),
    ("steps-tests-read", test_lines_read_by_number),
    ("steps-strict-run", warning_run),
    ("steps-one-test", one_test_by_name),
    ("steps-formatter", formatter_run),
    ("steps-timeout", timeout_guard),
    ("steps-renamed", rename_symbol),
    ("steps-in-parts", written_in_parts),
)
