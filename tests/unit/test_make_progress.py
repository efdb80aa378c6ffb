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
    told = ["  20 packages", "  40 packages", "ERROR: No such one", "  45 packages in all"]
    assert done.stdout.splitlines() == told
