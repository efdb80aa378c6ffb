"""The shell completes verbs, options and choices of the command line as it is."""

from __future__ import annotations

import subprocess

import pytest

from composer_replication.cli.main import VERBS
from tests.command_line import recompose


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "recompose.bash"
    ended = recompose("--install-completion", "--shell", "bash", "--output", path)
    assert (ended.returncode, ended.stdout.strip()) == (0, str(path))
    return path


def completed(script, *words: str) -> set[str]:
    typed = " ".join(f"'{word}'" for word in ("recompose", *words))
    code = f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _recompose; echo ${{COMPREPLY[@]}}"
    return set(subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_bash_completes_verbs_options_and_choices(script):
    assert {where.split(":")[1] for where in VERBS} <= completed(script, "")
    assert completed(script, "fo") == {"fork"}
    assert completed(script, "env", "ro") == {"rollout"}
    assert completed(script, "train", "--dry") == {"--dry-run"}
    assert completed(script, "init", "--on", "s") == {"sessions"}


def test_a_shell_that_is_not_known_is_asked_for(monkeypatch, tmp_path):
    from cyclopts.completion import ShellDetectionError

    def unknown(self, **_):
        raise ShellDetectionError

    monkeypatch.setattr("cyclopts.core.App.install_completion", unknown)
    ended = recompose("--install-completion", "--output", tmp_path / "x")
    assert ended.returncode == 2 and "next: recompose --install-completion --shell bash" in ended.stderr
