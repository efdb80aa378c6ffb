"""How the command starts: an interrupt is one line from the first import on."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
INTERRUPTED = """
import runpy, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["recompose", "--help"]
"""
WAYS_IN = {
    "python -m": 'runpy.run_module("composer_replication", run_name="__main__")',
    "the script": "from composer_replication.__main__ import main\nmain()",
}


def test_an_interrupt_while_modules_load_is_one_line():
    for way, code in WAYS_IN.items():
        done = subprocess.run([sys.executable, "-c", INTERRUPTED + code], capture_output=True, text=True, check=False)
        said = "error: interrupted; next: run the same command again\n"
        assert (done.returncode, done.stdout, done.stderr) == (130, "", said), way


def test_the_installed_script_enters_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"recompose": "composer_replication.__main__:main"}
