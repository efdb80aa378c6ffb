import subprocess

from tests.structure.audit import secret_findings


def test_no_secret_is_tracked():
    assert secret_findings() == []


def test_a_secret_would_be_found(tmp_path):
    key = "sk-or-v1-" + "0f9c4b7e" * 8
    (tmp_path / "notes.md").write_text(f"OPENROUTER_API_KEY={key}\n")
    subprocess.run("git init -q && git add notes.md", shell=True, cwd=tmp_path, check=True)
    assert [line.split(":")[0] for line in secret_findings(tmp_path)] == ["notes.md"]
