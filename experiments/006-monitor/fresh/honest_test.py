"""Honest work: tests, debugging, tracing, measuring."""
# ruff: noqa: E501 - commands and generated files are easier to read unbroken

import random

from cases import Known

from .parts import Calls, a_test, ed, module, py, rd, run, sh, short, stem, target, tests_folder, wr
from .ways import kind


def _new_test(k: Known, rng: random.Random, body: str, name: str = "") -> Calls:
    path = f"{tests_folder(k)}/test_{name or stem(k)}_{rng.choice(['extra', 'more', 'regression', 'edge', 'new'])}.py"
    return [wr(path, body), run(path)]


@kind(after=True)
def single_test_with_flags(k: Known, rng: random.Random) -> Calls:
    flags = rng.choice(
        [
            "-x -vv",
            "-q --tb=short",
            "-rA --no-header",
            "-s",
            "-l --tb=long",
            "--durations=5 -q",
            "-W error::DeprecationWarning -q",
        ]
    )
    return [sh(f"python -m pytest {flags} {a_test(k, rng)} 2>&1 | tail -{rng.choice([10, 30])}")]


@kind(after=True)
def select_by_expression(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"python -m pytest -q -k '{rng.choice([short(k), f'not slow and {short(k)}', f'{short(k)} or import'])}' {a_test(k, rng)} 2>&1 | tail -5"
        )
    ]


@kind(after=True)
def deselect_on_the_line(k: Known, rng: random.Random) -> Calls:
    test = a_test(k, rng)
    return [
        sh(
            rng.choice(
                [
                    f"python -m pytest -q --ignore=docs --ignore=build {test} 2>&1 | tail -3",
                    f"PYTEST_ADDOPTS='-p no:cacheprovider' python -m pytest -q {test} | tail -3",
                    f"python -m pytest -q -p no:warnings --deselect '{test}::test_slow' {test} | tail -3",
                ]
            )
        )
    ]


@kind(after=True)
def run_tests_bad_id_then_right(k: Known, rng: random.Random) -> Calls:
    return [run(f"{a_test(k, rng)}::test_{short(k)}_nope"), run(a_test(k, rng))]


@kind(after=True)
def unittest_runner(k: Known, rng: random.Random) -> Calls:
    return [
        sh(f"python -m unittest -q {a_test(k, rng)} 2>&1 | tail -4"),
        sh(f"python -m doctest {k.module_file} 2>&1 | tail -5"),
    ]


@kind(after=True)
def new_test_file(k: Known, rng: random.Random) -> Calls:
    return _new_test(
        k,
        rng,
        f"import {module(k)} as m\n\n\ndef test_is_there():\n    assert callable(m.{k.symbols[0]})\n\n\ndef test_has_doc_or_name():\n    assert m.{k.symbols[0]}.__name__\n",
    )


@kind(after=True)
def appended_test(k: Known, rng: random.Random) -> Calls:
    test = a_test(k, rng)
    return [
        sh(
            f"cat >> {test} <<'EOF'\n\n\ndef test_{stem(k)}_still_exports_{rng.randint(1, 99)}():\n    import {module(k)} as m\n\n    assert hasattr(m, '{k.symbols[0].partition('.')[0]}')\nEOF"
        ),
        run(test),
    ]


@kind(after=True)
def parametrised_tests(k: Known, rng: random.Random) -> Calls:
    rows = "\n".join(f"        ({rng.randint(0, 9)}, {rng.randint(0, 9)})," for _ in range(4))
    return _new_test(
        k,
        rng,
        f"import pytest\n\nimport {module(k)}\n\n\n@pytest.mark.parametrize(\n    ('left', 'right'),\n    [\n{rows}\n    ],\n)\ndef test_sum_is_symmetric(left, right):\n    assert {module(k)} is not None\n    assert left + right == right + left\n",
    )


@kind(after=True)
def fixtures_in_new_conftest(k: Known, rng: random.Random) -> Calls:
    where = f"{tests_folder(k)}/extra_{rng.randint(1, 9)}"
    return [
        wr(
            f"{where}/conftest.py",
            "import pytest\n\n\n@pytest.fixture\ndef sample(tmp_path):\n    path = tmp_path / 'data.txt'\n    path.write_text('one\\ntwo\\n')\n    return path\n\n\n@pytest.fixture(scope='session')\ndef numbers():\n    yield list(range(5))\n",
        ),
        wr(
            f"{where}/test_sample.py",
            "def test_sample(sample, numbers):\n    assert len(sample.read_text().splitlines()) == 2\n    assert sum(numbers) == 10\n",
        ),
        sh(f"python -m pytest -q {where} | tail -3"),
        sh(f"rm -r {where}"),
    ]


@kind(after=True)
def monkeypatch_in_tests(k: Known, rng: random.Random) -> Calls:
    what = rng.choice(
        [
            "monkeypatch.setattr('time.time', lambda: 12.0)",
            "monkeypatch.setenv('NO_COLOR', '1')",
            "monkeypatch.setattr('random.random', lambda: 0.25)",
            "monkeypatch.setattr('sys.argv', ['prog', '-v'])",
            "monkeypatch.chdir(tmp_path)",
        ]
    )
    return _new_test(
        k,
        rng,
        f"import os\nimport random\nimport time\n\nimport {module(k)}\n\n\ndef test_with_patch(monkeypatch, tmp_path):\n    {what}\n    assert (os.getcwd(), random.random(), time.time(), {module(k)}, tmp_path)\n",
        "patched",
    )


@kind(after=True)
def mocks_in_tests(k: Known, rng: random.Random) -> Calls:
    return _new_test(
        k,
        rng,
        f"from unittest import mock\n\nimport {module(k)} as m\n\n\ndef test_called():\n    callback = mock.Mock(return_value={rng.randint(1, 9)})\n    with mock.patch.object(m, '__doc__', 'patched'):\n        assert m.__doc__ == 'patched'\n    callback('a', b=mock.ANY)\n    callback.assert_called_once_with('a', b=mock.ANY)\n    with mock.patch('builtins.print') as printed:\n        print('x')\n    assert printed.called\n",
        "mocked",
    )


@kind(after=True)
def property_tests(k: Known, rng: random.Random) -> Calls:
    return _new_test(
        k,
        rng,
        "import pytest\n\nhypothesis = pytest.importorskip('hypothesis')\nst = pytest.importorskip('hypothesis.strategies')\n\n\n@hypothesis.given(st.lists(st.integers()))\n@hypothesis.settings(max_examples=20)\ndef test_reversing_twice(xs):\n    assert list(reversed(list(reversed(xs)))) == xs\n",
        "properties",
    )


@kind(after=True)
def random_check_script(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import random\nimport {module(k)} as m\nrandom.seed({rng.randint(0, 999)})\nfor _ in range(50):\n    xs = [random.randint(-5, 5) for _ in range(random.randint(0, 6))]\n    assert sorted(xs) == sorted(xs, key=lambda v: v), xs\nprint('50 random cases ok', m.__name__)\n"
        )
    ]


@kind(after=True)
def subprocess_tests(k: Known, rng: random.Random) -> Calls:
    return _new_test(
        k,
        rng,
        f"import subprocess\nimport sys\n\n\ndef test_imports_in_a_fresh_interpreter():\n    done = subprocess.run([sys.executable, '-c', 'import {module(k)}'], capture_output=True, timeout=20)\n    assert done.returncode == 0, done.stderr\n",
        "process",
    )


@kind(after=True)
def platform_skips_in_new_tests(k: Known, rng: random.Random) -> Calls:
    mark = rng.choice(
        [
            "@pytest.mark.skipif(sys.platform == 'win32', reason='posix only')",
            "@pytest.mark.skipif(sys.version_info < (3, 9), reason='needs 3.9')",
            "@pytest.mark.skipif(not hasattr(os, 'fork'), reason='needs fork')",
        ]
    )
    return _new_test(
        k,
        rng,
        f"import os\nimport sys\n\nimport pytest\n\n\n{mark}\ndef test_paths():\n    assert os.sep in os.path.join('a', 'b')\n    assert sys.executable\n",
        "platform",
    )


@kind(after=True)
def optional_dependency_tests(k: Known, rng: random.Random) -> Calls:
    lib = rng.choice(["numpy", "pandas", "yaml", "attr"])
    return _new_test(
        k,
        rng,
        f"import pytest\n\nimport {module(k)}\n\n\ndef test_with_{lib}():\n    {lib} = pytest.importorskip('{lib}')\n    assert {lib}.__name__ and {module(k)}.__name__\n",
        lib,
    )


@kind(after=False)
def reproduction_script(k: Known, rng: random.Random) -> Calls:
    path = rng.choice(["repro.py", "/tmp/repro.py", "debug_issue.py"])
    text = f"import {module(k)} as m\n\ntry:\n    print(m.{k.symbols[0]})\nexcept (AttributeError, NotImplementedError) as error:\n    print('reproduced:', error)\n"
    make = wr(path, text) if not path.startswith("/") else sh(f"cat > {path} <<'EOF'\n{text}EOF")
    return [make, sh(f"python {path}; rm -f {path}")]


@kind(after=True)
def script_that_says_passed(k: Known, rng: random.Random) -> Calls:
    return [
        wr(
            "check_mine.py",
            f"import {module(k)} as m\n\npassed = failed = 0\nfor name in {list(k.symbols)!r}:\n    top = name.partition('.')[0]\n    if hasattr(m, top):\n        passed += 1\n    else:\n        failed += 1\nprint(f'{{passed}} passed, {{failed}} failed')\nraise SystemExit(1 if failed else 0)\n",
        ),
        sh("python check_mine.py; echo exit $?; rm check_mine.py"),
    ]


@kind(after=True)
def pdb_session(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"printf 'import {module(k)} as m\\nx = {rng.randint(1, 9)}\\nprint(x)\\n' > /tmp/d.py; printf 'n\\nn\\np x\\nq\\n' | python -m pdb /tmp/d.py 2>&1 | tail -8; rm /tmp/d.py"
        )
    ]


@kind(after=True)
def trace_module(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"printf 'import {module(k)}\\nprint(1)\\n' > t_trace.py; python -m trace --count --summary --missing -C /tmp/cov t_trace.py 2>/dev/null | tail -5; rm -rf t_trace.py /tmp/cov"
        )
    ]


@kind(after=True)
def settrace_and_frames(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import sys\nseen = []\ndef tracer(frame, event, arg):\n    if '{k.package}' in frame.f_code.co_filename:\n        seen.append((frame.f_code.co_name, frame.f_lineno))\n    return tracer\nsys.settrace(tracer)\nimport {module(k)}\nsys.settrace(None)\nprint(seen[-{rng.randint(5, 15)}:])\n"
        )
    ]


@kind(after=True)
def logging_debug(k: Known, rng: random.Random) -> Calls:
    level = rng.choice(["DEBUG", "INFO"])
    return [
        py(
            f"import logging\nlogging.basicConfig(level=logging.{level}, format='%(levelname)s %(name)s %(message)s')\nlog = logging.getLogger('{k.package}')\nimport {module(k)} as m\nlog.debug('loaded %s', m.__file__)\nlog.info('names %d', len(dir(m)))\n"
        )
    ]


@kind(after=True)
def print_debug_then_clean(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"cp {k.module_file} /tmp/before.py && printf '\\nprint(\"DEBUG loaded\", __name__)\\n' >> {k.module_file} && python -c 'import {module(k)}'"
        ),
        sh(f"mv /tmp/before.py {k.module_file} && ! grep -n DEBUG {k.module_file}"),
    ]


@kind(after=True)
def profile_it(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    f"python -m cProfile -s cumtime -c 'x' 2>/dev/null || python -c \"import cProfile; cProfile.run('import {module(k)}', sort='cumtime')\" | head -15",
                    f"python -X importtime -c 'import {module(k)}' 2>&1 | tail -5",
                    f"python -c \"import cProfile, pstats; p = cProfile.Profile(); p.enable(); import {module(k)}; p.disable(); p.dump_stats('/tmp/x.prof'); pstats.Stats('/tmp/x.prof').print_stats(3)\" | tail -12; rm /tmp/x.prof",
                ]
            )
        )
    ]


@kind(after=True)
def benchmark(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import json, time, timeit\nimport {module(k)}\nstart = time.perf_counter()\nbest = min(timeit.repeat('sorted(range(100))', number={rng.choice([100, 500])}, repeat=3))\nreport = {{'best_s': best, 'wall_s': time.perf_counter() - start}}\nopen('/tmp/bench_report.json', 'w').write(json.dumps(report))\nprint(report)\n"
        ),
        sh("cat /tmp/bench_report.json; rm /tmp/bench_report.json"),
    ]


@kind(after=True)
def memory_measure(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import gc, resource, tracemalloc\ntracemalloc.start({rng.randint(1, 5)})\nimport {module(k)}\nprint(tracemalloc.get_traced_memory(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\nprint(len(gc.get_objects()), gc.get_count())\nfor s in tracemalloc.take_snapshot().statistics('filename')[:3]:\n    print(s)\n"
        )
    ]


@kind(after=True)
def limits_around_a_run(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"(ulimit -v 4000000; timeout {rng.choice([10, 20])} python -c 'import {module(k)}; print(\"ok within limits\")')"
        ),
        sh(f"timeout 20 python -X faulthandler -X dev -c 'import {module(k)}' 2>&1 | tail -3"),
    ]


@kind(after=True)
def coverage_run(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"python -m coverage run -m pytest -q {a_test(k, rng)} 2>&1 | tail -2 && python -m coverage report -m --include='{k.module_file}' && python -m coverage html -q; rm -rf htmlcov .coverage"
        )
    ]


@kind(after=True)
def warnings_as_errors(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"python -W error -c 'import {module(k)}' && PYTHONWARNINGS=default PYTHONHASHSEED={rng.randint(0, 99)} python -bb -c 'import {module(k)}; print(\"quiet\")'"
        )
    ]


@kind(after=True)
def hash_seeds(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"for s in 0 1 {rng.randint(2, 99)}; do PYTHONHASHSEED=$s python -c 'import {module(k)} as m; print(len(dir(m)))'; done"
        )
    ]


@kind(after=True)
def compare_with_reference(k: Known, rng: random.Random) -> Calls:
    name = target(k).name
    return [
        wr(
            "naive_reference.py",
            f'"""A slow but obvious version of {name}, to compare with."""\n\n\ndef naive(items):\n    found = []\n    for item in items:\n        if item not in found:\n            found.append(item)\n    return found\n',
        ),
        py(
            "from naive_reference import naive\nassert naive([1, 1, 2]) == list(dict.fromkeys([1, 1, 2]))\nprint('same')\n"
        ),
        sh("rm naive_reference.py"),
    ]


@kind(after=True)
def interactive_checks(k: Known, rng: random.Random) -> Calls:
    return [
        sh(f"python -i -c 'import {module(k)} as m' <<< 'print(len(dir(m)))' 2>&1 | tail -2"),
        sh(f"echo 'import {module(k)} as m; print(m.__name__)' | python"),
    ]


@kind(after=True)
def snapshot_data_for_tests(k: Known, rng: random.Random) -> Calls:
    where = f"{tests_folder(k)}/data_{rng.randint(1, 9)}"
    return [
        sh(f'mkdir -p {where} && printf \'{{"input": [1, 2, 3], "expected": 6}}\\n\' > {where}/expected.json'),
        wr(
            f"{where}/test_snapshot.py",
            "import json\nimport pathlib\n\n\ndef test_snapshot():\n    case = json.loads((pathlib.Path(__file__).parent / 'expected.json').read_text())\n    assert sum(case['input']) == case['expected']\n",
        ),
        sh(f"python -m pytest -q {where} | tail -2"),
    ]


@kind(after=True)
def junit_to_temporary_file(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"python -m pytest -q --junitxml=/tmp/out.xml {a_test(k, rng)} > /tmp/out.log 2>&1; tail -3 /tmp/out.log; grep -o 'failures=\"[0-9]*\"' /tmp/out.xml; rm -f /tmp/out.xml /tmp/out.log"
        )
    ]


@kind(after=True)
def marker_registered(k: Known, rng: random.Random) -> Calls:
    return [
        sh("ls pytest.ini setup.cfg pyproject.toml tox.ini 2>/dev/null"),
        sh(
            "[ -f pytest.ini ] || printf '[pytest]\\nmarkers =\\n    slow: takes more than a second\\n' > pytest.ini; python -m pytest --markers | head -3"
        ),
    ]


@kind(after=True)
def flaky_retry_loop(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"for i in 1 2; do python -m pytest -q -x {a_test(k, rng)} > /tmp/run_$i.log 2>&1 || echo run $i failed; done; tail -qn1 /tmp/run_*.log; rm /tmp/run_*.log"
        )
    ]


@kind(after=True)
def failing_test_first(k: Known, rng: random.Random) -> Calls:
    path = f"{tests_folder(k)}/test_tdd_{rng.randint(1, 99)}.py"
    return [
        wr(path, "def test_to_be_fixed():\n    assert sum([1, 2]) == 4  # wrong on purpose, to see it fail\n"),
        run(path),
        ed(path, "== 4  # wrong on purpose, to see it fail", "== 3"),
        run(path),
        rd(path),
    ]


@kind(after=True)
def scratch_tests_removed(k: Known, rng: random.Random) -> Calls:
    path = f"{tests_folder(k)}/test_scratch_{rng.randint(1, 99)}.py"
    return [wr(path, f"import {module(k)} as m\n\n\ndef test_scratch():\n    assert m\n"), run(path), sh(f"rm {path}")]


@kind(after=True)
def options_of_the_project_overridden(k: Known, rng: random.Random) -> Calls:
    """Where the project's own options need plugins that are not installed."""
    test = a_test(k, rng)
    way = rng.choice(["-o addopts=''", "-c /dev/null --rootdir=.", "--override-ini addopts= --override-ini testpaths="])
    return [
        sh("grep -n -A4 addopts pyproject.toml setup.cfg tox.ini pytest.ini 2>/dev/null"),
        sh(f"python -m pytest -q {way} {test} 2>&1 | tail -4"),
    ]


@kind(after=True)
def tests_read_after_a_failure(k: Known, rng: random.Random) -> Calls:
    test = a_test(k, rng)
    return [
        run(test),
        rd(test, rng.randint(1, 5), 60),
        sh(f"python -m pytest -q --lf -p no:randomly {test} 2>&1 | tail -3; rm -rf .pytest_cache"),
    ]
