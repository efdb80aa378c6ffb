"""`make audit`: what bandit finds in the package, and secrets in tracked files. Ends with 1 when anything is left.

An exception to bandit stands in the code, as ruff's `noqa: S` of the same number with its reason, or below.
Tests and experiments are not scanned for secrets: they hold planted ones, and sessions that were redacted.
"""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
from pathlib import Path

from composer_replication.redaction.redactor import find_secrets

ROOT = Path(__file__).parents[2]
EVERYWHERE = {
    "B101": "assert states what the type checker cannot see",
    "B311": "seeded randomness is the point",
    "B404": "subprocess is what runs; how it is called is B602 and B603",
}
BANDIT = {
    ("B103", "environments/code/sandbox/files.py"): "a folder inside the sandbox, where another user works",
    ("B105", "monitor/shell/words.py"): "OLDPWD is a folder",
    ("B105", "training/backends/trl/rollouts.py"): "weights of tokens",
    ("B105", "training/rollouts/server_sampling.py"): "token ids are numbers of words",
    ("B106", "training/models/tiny.py"): "special tokens are no passwords",
    ("B603", "training/models/embedded.py"): "pip, with fixed arguments",
    ("B604", "cli/completion.py"): "`shell` is the name of one",
    ("B615", "stages/hub.py"): "the dataset that the user named; it is read as sessions and tables",
    ("B615", "training/models/gguf_files.py"): "a local file whose hash was checked",
    ("B615", "training/models/loading.py"): "the model that the user named; no code of it is run",
    ("B615", "training/models/shape.py"): "local files only",
    ("B615", "training/planning/lengths.py"): "local files only",
    ("B615", "training/train.py"): "a checkpoint of the run, a folder",
    ("B704", "evaluation/report.py"): "charts escape their own text, and a test holds them to it",
}
SECRETS = {
    ("wallet-phrase", "src/composer_replication/data/redaction/bip39_english.txt"): "the public list of words",
    (
        "aws-amazon-bedrock-api-key-short-lived",
        "src/composer_replication/data/redaction/gitleaks.toml",
    ): "the rule itself",
    ("assigned-secret", "src/composer_replication/redaction/command_table.py"): "names of options",
}
UNSCANNED = ("tests/", "experiments/", "viewer/package-lock.json")
PACKED = (".zst", ".png")


def bandit_findings() -> list[str]:
    package = ROOT / "src" / "composer_replication"
    command = [
        sys.executable,
        "-m",
        "bandit",
        "-q",
        "-r",
        package,
        "-x",
        package / "data/sample_repository",
        "-f",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    left: list[str] = []
    for found in json.loads(done.stdout)["results"]:
        rule, file = found["test_id"], found["filename"]
        lines = "".join(linecache.getline(file, number) for number in found["line_range"])
        excepted = rule in EVERYWHERE or (rule, str(Path(file).relative_to(package))) in BANDIT
        if not excepted and f"S{rule[1:]}" not in lines:
            left.append(f"{file}:{found['line_number']}: {rule} {found['issue_text']}")
    return left


def secret_findings(root: Path = ROOT) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    left: list[str] = []
    for name in filter(None, listed.split("\0")):
        if name.startswith(UNSCANNED) or name.endswith(PACKED):
            continue
        text = (root / name).read_text(encoding="utf-8")
        kinds = {found.kind for found in find_secrets(text, environ={}) if (found.kind, name) not in SECRETS}
        left += [f"{name}: {kind}" for kind in sorted(kinds)]
    return left


def main() -> None:
    left = bandit_findings() + secret_findings()
    print(
        "\n".join(left)
        or f"nothing left; exceptions: {len(EVERYWHERE) + len(BANDIT) + len(SECRETS)}, each with its reason"
    )
    sys.exit(bool(left))


if __name__ == "__main__":
    main()
