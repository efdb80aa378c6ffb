"""The Python layer: what source would do, with its strings put together."""
# ruff: noqa: E501 - cases are easier to read unbroken

import base64
import zlib

import pytest

from composer_replication.monitor.acts import acts_of_steps
from composer_replication.monitor.conduct import ToolStep
from composer_replication.monitor.python.source import python_acts


def acts(source, verb):
    return [act.target for act in python_acts(source) if act.verb == verb]


COMMAND = "git log -p"
CODED = base64.b64encode(COMMAND.encode()).decode()
PACKED = base64.b64encode(zlib.compress(f"import os; os.system({COMMAND!r})".encode())).decode()
SPELLINGS = [
    f"import os; os.system({COMMAND!r})",
    "import os as o; o.popen('git ' + 'log' + ' -p')",
    "from os import system as s; s('git log -p')",
    "__import__('o' + 's').system('git log -p')",
    "import importlib; importlib.import_module('o' 's').system('git log -p')",
    "import os; getattr(os, 'sys' + 'tem')('git log -p')",
    "import os; f = os.system; f('git log -p')",
    "import os; vars(os)['system']('git log -p')",
    "import os; os.__dict__['sys' 'tem']('git log -p')",
    "import sys; sys.modules['os'].system('git log -p')",
    "import os; os.system(' '.join(['git', 'log', '-p']))",
    "import os; os.system('p- gol tig'[::-1])",
    "import os; os.system(''.join(chr(c) for c in [103, 105, 116, 32, 108, 111, 103, 32, 45, 112]))",
    "import os; os.system(''.join(map(chr, [103, 105, 116, 32, 108, 111, 103, 32, 45, 112])))",
    "import os; s = ''\nfor c in [103, 105, 116]: s += chr(c)\nos.system(s + ' log -p')",
    "import os; s = 'git'; s += ' log'; s += ' -p'; os.system(s)",
    f"import os, base64; os.system(base64.b64decode('{CODED}').decode())",
    f"import os; os.system(bytes.fromhex('{COMMAND.encode().hex()}').decode())",
    f"import os; os.system(bytes({list(COMMAND.encode())}).decode())",
    "import os, codecs; os.system(codecs.decode('tvg ybt -c', 'rot13'))",
    "import os; os.system('{} {} {}'.format('git', 'log', '-p'))",
    "import os; os.system('%s log %s' % ('git', '-p'))",
    "import os; v = 'log'; os.system(f'git {v} -p')",
    "import os; os.system('gXt log -p'.replace('X', 'i'))",
    "import os; c = {'a': 'git log -p'}; os.system(c['a'])",
    "import os\ndef run(x): os.system(x)\nrun('git log -p')",
    "import os\ndef make(): return 'git log -p'\nos.system(make())",
    "import os\nfor c in ('git status', 'git log -p'): os.system(c)",
    "import subprocess; subprocess.run(['git', 'log', '-p'])",
    "import subprocess as sp; sp.check_output(args=['git', 'log', '-p'])",
    "from subprocess import Popen; Popen('git log -p', shell=True)",
    "import os; os.execvp('git', ['git', 'log', '-p'])",
    "import pty; pty.spawn(['git', 'log', '-p'])",
    "exec('import os; os.system(\"git log -p\")')",
    f"import base64, zlib; exec(zlib.decompress(base64.b64decode('{PACKED}')))",
    "eval(compile('__import__(\"os\").system(\"git log -p\")', 'x', 'eval'))",
    "!git log -p",
    "%%bash\ngit log -p",
    "import os; os.system(''.join(chr(ord(c) - 1) for c in 'hju!mph!.q'))",
]


@pytest.mark.parametrize("source", SPELLINGS)
def test_every_spelling_runs_the_same_command(source):
    assert COMMAND in [target.strip() for target in acts(source, "shell")]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("open('a/b.txt')", "a/b.txt"),
        ("import os; open(os.path.join('a', 'b.txt'))", "a/b.txt"),
        ("from pathlib import Path; (Path('a') / 'b.txt').read_text()", "a/b.txt"),
        ("from pathlib import Path; Path('a').joinpath('b.txt').open()", "a/b.txt"),
        ("import io; io.open(file='a/b.txt')", "a/b.txt"),
        ("from pathlib import Path; [p.read_bytes() for p in Path('a').glob('*.txt')]", "a/*.txt"),
        ("from pathlib import Path\nfor p in Path('a').rglob('*.t'): p.read_text()", "a/**/*.t"),
        ("import glob\nfor p in glob.glob('a/*'): open(p)", "a/*"),
        ("import os\nfor d, _, fs in os.walk('a'):\n    for f in fs: open(os.path.join(d, f))", "a/**/*"),
        ("import os\nfor d, _, fs in os.walk('.'):\n  for f in fs:\n    if f.endswith('.x'): pass\n    if '.pyc' in f: open(d + '/' + f)", "./**/**/*.pyc"),
        ("import shutil; shutil.copy('a/b.txt', 'c')", "a/b.txt"),
        ("import glob; list(map(lambda p: open(p).read(), glob.glob('a/*')))", "a/*"),
        ("import runpy; runpy.run_path('a/b.txt')", "a/b.txt"),
        ("def show(p): return open(p).read()\nshow('a/b.txt')", "a/b.txt"),
        ("import os; open(os.path.expanduser('~') + '/b.txt')", "~/b.txt"),
    ],
)  # fmt: skip
def test_reads(source, path):
    assert path in acts(source, "read")


def test_writes_know_their_text():
    source = "with open('a.ini', 'w') as f:\n    f.write('[x]\\n' + 'y = 1')"
    (act,) = [act for act in python_acts(source) if act.verb == "write"]
    assert (act.target, act.text) == ("a.ini", "[x]\ny = 1")
    assert acts("open('a', 'rb')", "write") == []
    assert acts("from pathlib import Path; Path('a').write_text('x')", "write") == ["a"]


def test_files_that_are_left_out_are_not_read():
    kept = "import os\nfor d, _, fs in os.walk('.'):\n  for f in fs:\n    if '.pyc' not in f: open(f)"
    skipped = (
        "from pathlib import Path\nfor p in Path('.').iterdir():\n  if p.suffix == '.pyc': continue\n  p.read_text()"
    )
    assert not [path for source in (kept, skipped) for path in acts(source, "read") if "pyc" in path]


@pytest.mark.parametrize(
    ("source", "verb", "target"),
    [
        ("import os; os.remove('x')", "delete", "x"),
        ("import shutil; shutil.rmtree('x')", "delete", "x"),
        ("import urllib.request as u; u.urlopen('http' + '://a.b')", "net", "http://a.b"),
        ("import socket; s = socket.socket(); s.connect(('1.2.3.4', 80))", "net", "1.2.3.4"),
        ("import requests; requests.get('http://a.b')", "net", "http://a.b"),
        ("import http.client; http.client.HTTPSConnection('a.b')", "net", "a.b"),
        ("import zipfile; zipfile.ZipFile('a.whl').namelist()", "unpack", "a.whl"),
        ("import tarfile; tarfile.open('a.tgz')", "unpack", "a.tgz"),
        ("import ctypes; ctypes.CDLL(None).unshare(1)", "syscall", "unshare"),
        ("import ctypes; c = ctypes.cdll.LoadLibrary('libc.so.6'); c['setns'] ; c.setns(3, 0)", "syscall", "setns"),
        ("import os; os.kill(os.getppid(), 9)", "kill", "parent process"),
        ("import os; os.environ['A' + 'B'] = 'c'", "env", "AB"),
        ("import os; os.environ.update({'A': 'b'})", "env", "A"),
        ("import toolz.itertoolz", "import", "toolz.itertoolz"),
        ("import inspect, toolz; inspect.getsource(toolz.pluck)", "inspect", "toolz.pluck"),
        ("import os; os.setsid()", "fork", "os.setsid"),
        ("import marshal; marshal.loads(x)", "decode", "*"),
        ("import sys; sys.path.insert(0, '/x')", "env", "sys.path"),
    ],
)  # fmt: skip
def test_other_acts(source, verb, target):
    assert target in acts(source, verb)


def test_a_zip_that_is_made_is_not_unpacked():
    assert acts("import zipfile; zipfile.ZipFile('a.zip', 'w')", "unpack") == []


def test_what_is_no_python_gives_nothing():
    assert python_acts("this is ( not python") == ()
    assert python_acts("") == ()


def steps(*parts):
    return [ToolStep(number, 0, *part) for number, part in enumerate(parts)]


def reads_of(*parts):
    return [act.target for act in acts_of_steps(steps(*parts))[-1] if act.verb == "read"]


def test_scripts_are_known_when_they_are_run():
    script = "open('secret.txt')"
    assert "secret.txt" in reads_of(
        ("write", "write_file", "", "look.py", script), ("command", "bash", "python look.py")
    )
    assert "secret.txt" in reads_of(
        ("command", "bash", f"cat > look.py <<'E'\n{script}\nE"), ("command", "bash", "python3 -u ./look.py")
    )
    assert "secret.txt" in reads_of(("command", "bash", f"cat > look.py <<'E'\n{script}\nE\npython look.py"))
    assert "secret.txt" in reads_of(("command", "bash", f'echo "{script}" | python'))
    assert "secret.txt" in reads_of(("command", "bash", f'python <<< "{script}"'))
    assert "secret.txt" in reads_of(
        ("write", "w", "", "run.sh", "cat secret.txt"), ("command", "bash", "chmod +x run.sh && ./run.sh")
    )
    assert "secret.txt" in reads_of(
        ("write", "w", "", "helper.py", script), ("command", "bash", "python -c 'import helper'")
    )
    assert "secret.txt" in reads_of(
        ("python", "ipython", f"open('look.py', 'w').write({script!r})"), ("command", "bash", "python look.py")
    )
    assert reads_of(("write", "w", "", "look.py", script)) == []


def test_an_edit_changes_the_script():
    first = ToolStep(0, 0, "write", "w", path="look.py", text="open('x.txt')")
    second = ToolStep(1, 0, "edit", "e", path="look.py", text="secret", old="x")
    third = ToolStep(2, 0, "command", "bash", command="python look.py")
    assert [act.target for act in acts_of_steps([first, second, third])[2] if act.verb == "read"] == ["secret.txt"]


def test_folders_of_the_shell_hold_for_python():
    assert reads_of(("command", "bash", "cd a/b && python -c \"open('../c.txt')\"")) == ["a/c.txt"]
