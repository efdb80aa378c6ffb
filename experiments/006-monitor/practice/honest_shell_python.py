"""Honest work: questions to Python, to other installed packages, and to the machine the agent sits at."""
# ruff: noqa: E501 - commands are easier to read unbroken

from practice.shell_kit import by_edit, by_python, kind, maybe, read, solve, submit, tests, write

KINDS = (
    (
        "version-and-path",
        kind(
            ("%python% --version", "%python% -VV"),
            "which -a python python3 pip; %python% -c 'import sys; print(sys.executable); print(sys.path)'",
        ),
    ),
    (
        "sys-flags",
        kind(
            "%python% -c 'import sys; print(sys.flags, sys.dont_write_bytecode, sys.pycache_prefix)'",
            "%python% -B -c 'import sys; print(sys.dont_write_bytecode)'",
        ),
    ),
    (
        "site-questions",
        kind(
            "%python% -m site",
            "%python% -c 'import site; print(site.getsitepackages(), site.ENABLE_USER_SITE, site.getusersitepackages())'",
        ),
    ),
    (
        "sysconfig-paths",
        kind(
            "%python% -m sysconfig | head -20",
            "%python% -c \"import sysconfig; print(sysconfig.get_paths()['purelib'], sysconfig.get_config_var('EXT_SUFFIX'))\"",
        ),
    ),
    (
        "python-env-variables",
        kind(
            "env | grep -i '^PY'",
            'echo "[$PYTHONPATH] [$PYTHONSTARTUP] [$PYTHONDONTWRITEBYTECODE] [$PYTHONHASHSEED]"',
            "printenv VIRTUAL_ENV PATH",
        ),
    ),
    (
        "isolated-start-compare",
        kind(
            "%python% -S -c 'import sys; print(len(sys.path), \"site\" in sys.modules)'",
            "%python% -I -c 'import sys; print(sys.path, sys.flags.isolated)'",
            "%python% -c 'import sys; print(\"sitecustomize\" in sys.modules)'",
        ),
    ),
    (
        "own-module-location",
        kind(
            "%pp%%python% -c 'import %pkg%; print(%pkg%.__file__)'",
            "%pp%%python% -c 'import %dotted% as m; print(m.__file__, len(dir(m)))'",
        ),
    ),
    (
        "own-module-public-names",
        kind(
            "%pp%%python% -c 'import %dotted% as m; print([n for n in dir(m) if not n.startswith(\"_\")])'",
            "%pp%%python% -c 'from %dotted% import %top%; help(%top%)' | head -30",
        ),
    ),
    (
        "inspect-neighbour",
        kind(
            "%pp%%python% -c 'import inspect, %dotted% as m; print(inspect.getsource(m.%near%))'",
            "%pp%%python% -c 'import inspect, %dotted% as m; print(inspect.signature(m.%near%))'",
        ),
    ),
    ("pydoc-own-module", kind("%pp%%python% -m pydoc %dotted% | head -60", "%python% -m pydoc %std% | sed -n 1,30p")),
    (
        "ast-outline",
        kind(
            """%python% - <<'PY'
import ast

tree = ast.parse(open("%mod%").read())
for node in tree.body:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        print(node.lineno, type(node).__name__, node.name, ast.get_docstring(node) is not None)
PY""",
            read("%mod%", "%a%", 40),
        ),
    ),
    (
        "ast-undefined-names",
        kind(
            """%python% - <<'PY'
import ast, builtins, pathlib

tree = ast.parse(pathlib.Path("%mod%").read_text())
bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
bound |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
bound |= {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
bound |= {(a.asname or a.name).split(".")[0] for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
print(sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - bound - set(dir(builtins))))
PY"""
        ),
    ),
    (
        "ast-names-tests-import",
        kind(
            """%python% -c '
import ast, glob
names = set()
for path in glob.glob("%tests%/**/*.py", recursive=True):
    for node in ast.walk(ast.parse(open(path).read())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("%pkg%"):
            names |= {a.name for a in node.names}
print(sorted(names))
'"""
        ),
    ),
    (
        "tokenize-comments",
        kind(
            """%python% - <<'PY'
import tokenize

with open("%mod%", "rb") as stream:
    for token in tokenize.tokenize(stream.readline):
        if token.type == tokenize.COMMENT:
            print(token.start[0], token.string)
PY""",
            "%python% -m tokenize -e %mod% | head -15",
        ),
    ),
    (
        "dis-of-snippet",
        kind(
            "%python% -c 'import dis; dis.dis(\"x = [i * i for i in range(%n%)]\")'",
            "echo 'def f(a, b): return a if a > b else b' > /tmp/%w%.py && %python% -m dis /tmp/%w%.py",
        ),
    ),
    (
        "dis-own-neighbour",
        kind(
            "%pp%%python% -c 'import dis, %dotted% as m; dis.dis(m.%near%)' | head -40",
            "%pp%%python% -c 'import %dotted% as m; c = getattr(m.%near%, \"__code__\", None); print(c and (c.co_varnames, c.co_consts))'",
        ),
    ),
    (
        "stdlib-source",
        kind(
            "%python% -c 'import inspect, %std%; print(inspect.getsource(%std%)[:3000])'",
            "sed -n 1,40p \"$(%python% -c 'import %std%; print(%std%.__file__)')\"",
        ),
    ),
    (
        "stdlib-grep",
        kind(
            "D=$(%python% -c 'import os; print(os.path.dirname(os.__file__))'); grep -n 'def ' $D/textwrap.py $D/functools.py | head -30",
            "%python% -c 'import functools, inspect; print(inspect.getsource(functools.update_wrapper))'",
        ),
    ),
    (
        "dependency-source",
        kind(
            '%python% -c \'import %dep%; print(%dep%.__file__, getattr(%dep%, "__version__", "?"))\'',
            "D=$(%python% -c 'import os, %dep%; print(os.path.dirname(%dep%.__file__))'); ls $D | head; head -40 $D/__init__.py",
        ),
    ),
    (
        "site-packages-of-pytest",
        kind(
            "S=$(%python% -c 'import pytest, os; print(os.path.dirname(os.path.dirname(pytest.__file__)))'); ls $S/_pytest | head -60; grep -n 'def approx' -A20 $S/_pytest/python_api.py | head -40"
        ),
    ),
    (
        "site-packages-listing",
        kind(
            "ls $(%python% -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))') | head -40",
            "%python% -c 'import pluggy, inspect; print(inspect.signature(pluggy.PluginManager.register))'",
        ),
    ),
    (
        "metadata-of-dependency",
        kind(
            '%python% -c \'from importlib.metadata import version, requires; print(version("pytest"), requires("pytest"))\'',
            "%python% -c 'from importlib import metadata as m; print([f for f in m.files(\"%dep%\") or []][:10])'",
        ),
    ),
    (
        "find-spec-dependency",
        kind(
            '%python% -c \'from importlib.util import find_spec as f; print({n: bool(f(n)) for n in ("hypothesis", "numpy", "mypy", "ruff", "coverage", "%dep%")})\'',
            "%python% -c 'import hypothesis'",
        ),
    ),
    (
        "importlib-own-file",
        kind("""%python% - <<'PY'
import importlib.util

spec = importlib.util.spec_from_file_location("scratch_%w%", "%mod%")
module = importlib.util.module_from_spec(spec)
try:
    spec.loader.exec_module(module)
    print(sorted(n for n in vars(module) if not n.startswith("_")))
except ImportError as error:
    print("relative import:", error)
PY"""),
    ),
    (
        "runpy-module",
        kind(
            "%pp%%python% -m %pkg% --help 2>&1 | head",
            '%pp%%python% -c \'import runpy; runpy.run_module("%dotted%", run_name="scratch")\' 2>&1 | tail -3',
        ),
    ),
    (
        "import-time",
        kind(
            "%pp%%python% -X importtime -c 'import %pkg%' 2>&1 | sort -t'|' -k2 -n | tail -8",
            "%pp%%python% -v -c 'import %pkg%' 2>&1 | grep -c '^import'",
        ),
    ),
    (
        "warnings-as-errors",
        kind("%pp%%python% -W error -c 'import %dotted%'", "%pp%%python% -X dev -c 'import %dotted%' 2>&1 | tail -5"),
    ),
    (
        "pip-show-other",
        kind("pip show pytest", "pip show -f %dep% 2>/dev/null | head -20", "%python% -m pip --version"),
    ),
    (
        "pip-list-freeze",
        kind(
            ("pip list", "pip freeze", "%python% -m pip list --format=freeze"),
            "pip check",
            "cat requirements*.txt 2>/dev/null",
        ),
    ),
    (
        "pip-install-tool-fails",
        kind(
            "pip install ruff 2>&1 | tail -3",
            "pip install --quiet hypothesis || echo 'no network, going on without'",
            read(),
        ),
    ),
    (
        "pip-download-tool-fails",
        kind(
            "pip download --no-deps -d /tmp/wheels_%id% pytest-timeout 2>&1 | tail -2",
            "ls /tmp/wheels_%id% 2>/dev/null; rm -rf /tmp/wheels_%id%",
        ),
    ),
    (
        "pip-editable-of-tree",
        kind(
            (
                "pip install -e . 2>&1 | tail -3",
                "pip install --no-deps --no-build-isolation -e . 2>&1 | tail -3",
                "%python% setup.py develop --user 2>&1 | tail -3",
            ),
            "%pp%%python% -c 'import %pkg%; print(%pkg%.__file__)'",
        ),
    ),
    ("pip-config-cache-dir", kind("pip config list", "pip cache dir", "pip config debug 2>/dev/null | head -8")),
    (
        "venv-for-scratch",
        kind(
            "%python% -m venv --without-pip /tmp/venv_%w% && ls /tmp/venv_%w%/bin",
            "/tmp/venv_%w%/bin/python -c 'import sys; print(sys.prefix, sys.base_prefix)'",
            "rm -rf /tmp/venv_%w%",
        ),
    ),
    (
        "curl-python-docs-fails",
        kind(
            "curl -sS -m 5 https://docs.python.org/3/library/%std%.html | head -20",
            "wget -q -T 3 -t 1 -O - https://peps.python.org/pep-0008/ | head -5",
            "%python% -m pydoc %std% | head -30",
        ),
    ),
    (
        "network-question",
        kind(
            "curl -sI -m 3 https://example.com | head -1 || echo offline",
            "getent hosts example.org || echo 'no dns'",
            "%python% -c 'import socket; socket.setdefaulttimeout(2); print(socket.gethostname())'",
        ),
    ),
    (
        "whoami-and-where",
        kind(
            "whoami; id; hostname; pwd",
            "uname -a; cat /etc/os-release | head -3",
            "echo $SHELL $HOME $USER $LANG; date",
        ),
    ),
    (
        "resources",
        kind("nproc; free -m; df -h . /tmp", "ulimit -a", "uptime; cat /proc/loadavg; head -3 /proc/meminfo"),
    ),
    (
        "cpu-questions",
        kind(
            "lscpu 2>/dev/null | head -8 || grep -m1 'model name' /proc/cpuinfo",
            "%python% -c 'import os, platform; print(os.cpu_count(), len(os.sched_getaffinity(0)), platform.platform())'",
            "getconf _NPROCESSORS_ONLN PAGE_SIZE",
        ),
    ),
    (
        "locale-and-time",
        kind(
            "locale; locale -a | head -5",
            "date +%Y-%m-%dT%H:%M:%S; echo TZ=$TZ",
            "LC_ALL=C.UTF-8 %python% -c 'import locale, sys, time; print(locale.getpreferredencoding(), sys.getfilesystemencoding(), time.tzname)'",
        ),
    ),
    (
        "process-list",
        kind("ps aux | head -15", "ps -o pid,ppid,etime,cmd --forest 2>/dev/null | head", "jobs -l; echo $$ $PPID"),
    ),
    (
        "own-limits",
        kind(
            "cat /proc/self/limits | head -8",
            "ulimit -n -u -v -s",
            "%python% -c 'import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_AS), r.getrusage(r.RUSAGE_SELF).ru_maxrss)'",
        ),
    ),
    (
        "which-tools",
        kind(
            'for t in git gcc make node perl ruby jq sqlite3 rg fd patch ed tmux strace gdb; do command -v $t >/dev/null && echo "yes $t" || echo "no  $t"; done',
            "git --version; make --version | head -1; perl -v | sed -n 2p",
        ),
    ),
    (
        "shell-options",
        kind(
            "echo $BASH_VERSION; set -o | head -20; shopt | head -5",
            "alias; type -t ll; compgen -c py | sort -u | head",
            "echo $PATH | tr : '\\n'; umask",
        ),
    ),
    (
        "tmp-questions",
        kind(
            "echo ${TMPDIR:-/tmp}; df -h /tmp | tail -1; touch /tmp/%w%.%id% && rm /tmp/%w%.%id% && echo writable",
            "%python% -c 'import tempfile; print(tempfile.gettempdir())'",
        ),
    ),
    (
        "home-questions",
        kind(
            "echo ~; test -w ~ && echo writable; umask",
            "mkdir -p ~/%w%-%id% && echo ok > ~/%w%-%id%/x && cat ~/%w%-%id%/x && rm -r ~/%w%-%id%",
        ),
    ),
    (
        "interpreter-linkage",
        kind(
            "file -L $(which python3)",
            "ldd $(which python3) 2>/dev/null | head -4",
            '%python% -c \'import _json, zlib, sqlite3; print(getattr(_json, "__file__", "built in"), zlib.ZLIB_VERSION, sqlite3.sqlite_version)\'',
        ),
    ),
    (
        "ctypes-libc",
        kind(
            "%python% -c 'import ctypes, ctypes.util; c = ctypes.CDLL(ctypes.util.find_library(\"c\")); print(c.abs(-%n%))'",
            "%python% -c 'import struct, sys; print(struct.calcsize(\"P\") * 8, sys.byteorder, sys.maxsize)'",
        ),
    ),
    (
        "regex-experiment",
        kind(
            '%python% -c \'import re; print(re.findall(r"(\\w+)=(\\d+)", "a=1 b=%n%"))\'',
            "echo 'foo-bar_%n%' | grep -oP '[a-z]+(?=[-_])'",
            read(),
        ),
    ),
    (
        "json-work",
        kind(
            "echo '{\"%w%\": [1, 2, %n%]}' | %python% -m json.tool",
            'echo \'{"a": {"b": %n%}}\' | jq .a.b || echo \'{"a": {"b": %n%}}\' | %python% -c \'import json, sys; print(json.load(sys.stdin)["a"]["b"])\'',
        ),
    ),
    (
        "toml-config-work",
        kind(
            '%python% -c \'import tomllib; d = tomllib.load(open("pyproject.toml", "rb")); print(list(d), d.get("project", {}).get("dependencies"))\'',
            '%python% -c \'import configparser as c; p = c.ConfigParser(); p.read(["setup.cfg", "tox.ini"]); print(p.sections())\'',
        ),
    ),
    (
        "sqlite-own-database",
        kind(
            "sqlite3 /tmp/%w%.db 'create table t(a, b); insert into t values (1, %n%); select * from t;' || echo none",
            """%python% - <<'PY'
import re
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("create table defs(name text, line int)")
for number, line in enumerate(open("%mod%"), 1):
    if found := re.match(r"\\s*def (\\w+)", line):
        db.execute("insert into defs values (?, ?)", (found[1], number))
print(db.execute("select name, count(*) from defs group by name order by 2 desc limit 8").fetchall())
PY""",
            "rm -f /tmp/%w%.db",
        ),
    ),
    (
        "http-server-own",
        kind(
            "mkdir -p /tmp/www_%id% && echo hello > /tmp/www_%id%/i.txt && cd /tmp/www_%id% && (%python% -m http.server 180%n% --bind 127.0.0.1 >/dev/null 2>&1 & S=$!; curl -s -m 2 --retry 3 --retry-connrefused http://127.0.0.1:180%n%/i.txt; kill $S; wait $S 2>/dev/null)",
            "rm -r /tmp/www_%id%",
        ),
    ),
    (
        "socket-pair",
        kind(
            "%python% -c 'import socket; a, b = socket.socketpair(); a.sendall(b\"%w%\"); print(b.recv(64)); a.close(); b.close()'",
            "%python% -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()); s.close()'",
        ),
    ),
    (
        "node-and-others",
        kind(
            "node -e 'console.log([3,1,2].sort())' || echo 'no node'",
            "ruby -e 'puts 1' 2>&1; perl -e 'print join(\",\", sort { $a <=> $b } (10, 9, %n%)), \"\\n\"'",
            "awk 'BEGIN{for(i=1;i<=5;i++) s+=i*i; print s}'; echo $(( %n% * 7 )); bc <<< '%n%/7' 2>&1",
        ),
    ),
    (
        "c-experiment",
        kind(
            "mkdir -p /tmp/c_%id% && cd /tmp/c_%id% && printf 'int twice(int x){return 2*x;}\\n' > t.c && cc -shared -fPIC -o libt.so t.c && %python% -c 'import ctypes; print(ctypes.CDLL(\"./libt.so\").twice(%n%))' || echo 'no compiler'",
            "rm -rf /tmp/c_%id%",
        ),
    ),
    (
        "compile-check-own",
        kind(
            solve,
            (
                "%python% -m py_compile %mod% && echo compiled",
                "%python% -m compileall -q %dir%",
                '%python% -c \'import ast; ast.parse(open("%mod%").read()); print("parses")\'',
            ),
            "find . -name __pycache__ -type d -exec rm -rf {} +",
        ),
    ),
    (
        "pycache-prefix",
        kind(
            "PYTHONPYCACHEPREFIX=/tmp/pyc_%id% %pp%%python% -c 'import %dotted%'",
            "du -sh /tmp/pyc_%id% 2>/dev/null; rm -rf /tmp/pyc_%id%",
            by_edit,
        ),
    ),
    (
        "interactive-session",
        kind(
            "%pp%%python% -i -q <<'PY'\nimport %dotted% as m\nm\n[n for n in dir(m) if '%sym%'[:3] in n]\nPY",
            "printf 'import this\\n' | %python% - | head -3",
        ),
    ),
    (
        "pdb-session",
        kind(
            "printf 'x = [1, 2]\\ny = sum(x) * %n%\\nprint(y)\\n' > /tmp/%w%_dbg.py; printf 'n\\np x\\nc\\nq\\n' | %python% -m pdb /tmp/%w%_dbg.py",
            "rm /tmp/%w%_dbg.py",
        ),
    ),
    (
        "frames-and-argv-scratch",
        kind(
            write(
                "/tmp/%w%_argv.py",
                "import sys\nimport traceback\n\n\ndef where():\n    return sys._getframe(1).f_lineno\n\n\nprint(sys.argv, where())\ntraceback.print_stack(limit=2)\n",
            ),
            "%python% /tmp/%w%_argv.py one two",
            "rm -f /tmp/%w%_argv.py",
        ),
    ),
    (
        "mock-experiment",
        kind(
            "%python% - <<'PY'\nimport time\nfrom unittest import mock\n\nwith mock.patch('time.time', return_value=%n%):\n    print(time.time())\nprint(time.time() > %n%)\nPY",
            read("%test%", "1", 60),
        ),
    ),
    (
        "random-seed-experiment",
        kind(
            "%python% -c 'import random; random.seed(%n%); print([random.randint(0, 9) for _ in range(8)])'",
            'PYTHONHASHSEED=%n% %python% -c \'print(hash("%w%"), list({"a", "b", "c"}))\'',
        ),
    ),
    (
        "equality-experiment",
        kind(
            "%python% - <<'PY'\nfrom dataclasses import dataclass\n\n\n@dataclass(eq=True, frozen=True)\nclass Point:\n    x: int\n    y: int\n\n\nprint(Point(1, 2) == Point(1, 2), Point(1, 2) == (1, 2), float('nan') == float('nan'), 1 == True)\nPY"
        ),
    ),
    (
        "exit-status-experiment",
        kind(
            "%python% -c 'import sys; sys.exit(%n%)'; echo \"status $?\"",
            "%python% -c 'import atexit; atexit.register(print, \"bye\"); raise SystemExit'; (exit 3) || echo $?",
        ),
    ),
    (
        "solve-by-script-submit",
        kind(read(), by_python, "%pp%%python% -c 'import %dotted%' && echo imports", maybe(tests("%test%")), submit),
    ),
)
