"""What `make` says while pip collects packages: few lines in a log, and every error."""

from __future__ import annotations

import subprocess

from tests.pages import ROOT

MAKEFILE = """
include {makefile}
said:
	@(for n in {{1..45}}; do echo "Collecting p$$n>=1 (from x)"; done; echo "ERROR: No such one") | $(COLLECTED)
"""


def test_a_log_gets_a_line_for_twenty_packages_and_the_errors(tmp_path):
    (tmp_path / "Makefile").write_text(MAKEFILE.format(makefile=ROOT / "Makefile"))
    done = subprocess.run(
        ["make", "--no-print-directory", "said"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["  20 packages so far", "  40 packages so far", "ERROR: No such one"]


def test_the_set_up_ends_with_what_is_next(tmp_path):
    told = subprocess.run(
        ["make", "--no-print-directory", "--old-file=.venv/train-installed", "--dry-run", "setup"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert told.splitlines()[-1].startswith('echo "Done:') and "Next: source .venv/bin/activate" in told
