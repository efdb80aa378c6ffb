"""How many requests made of real sessions four strict servers take: OpenAI, Anthropic, Mistral, vLLM.

python benchmarks/dialects.py FOLDER [--as-recorded] [--every 1] [--json FILE]

Every turn of every session under FOLDER is asked about, over HTTP on loopback. The servers refuse what the providers'
documents say is refused (tests/dialect_rules.py). `--as-recorded` sends each history as the trace has it, which shows
what making it legal is for; Anthropic's is left out then, because it takes no request of another form. No provider is
asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.dialect_servers import DialectServer

from composer_replication.llm.outgoing import encoded
from composer_replication.llm.parameters import parameters_of
from composer_replication.llm.transport import HttpTransport
from composer_replication.llm.wire import ChatWire
from composer_replication.records import Trace
from composer_replication.replay.gate import State
from composer_replication.replay.requests import TeacherQuestion
from composer_replication.replay.teachers import Teacher
from composer_replication.runs import Run

MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-opus-4-7", "mistral": "mistral-large", "vllm": "qwen3"}
OLDER_OPENAI = "gpt-4.1"
"""It takes `max_tokens`; as recorded it is asked too, because that refusal hides all others."""
MAX_TOKENS = 2048
SET_ASIDE_EXIT = 4
TIMEOUT_S = 120.0


def states_of(folder: Path, every: int) -> list[State]:
    with tempfile.TemporaryDirectory() as made:
        run = Path(made) / "run"
        command = [sys.executable, "-m", "composer_replication", "ingest", str(folder), "--run", str(run)]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        if done.returncode not in (0, SET_ASIDE_EXIT):
            raise SystemExit(f"nothing could be read from {folder}")
        traces = list(Run.open(run).stage("ingestion").read(Trace))
    return [State(trace, turn) for trace in traces for turn in range(len(trace.turns))][::every]


def asked(dialect: str, model: str, states: Sequence[State], as_recorded: bool) -> dict:
    reasons: Counter[str] = Counter()
    with DialectServer(dialect, keep=False) as server:
        wire = ChatWire(dialect, parameters_of(model))
        teacher = Teacher(model, server.base_url, spoken=wire)

        async def ask_all() -> int:
            taken = 0
            async with HttpTransport(TIMEOUT_S) as transport:
                for state in states:
                    question = TeacherQuestion(state, teacher, "", 0, MAX_TOKENS, shares_prefix=True)
                    request = question.request() if as_recorded else question.sent()
                    request.pop("parameters", None)
                    url = wire.url(server.base_url)
                    response = await transport.post(url, encoded(request), None, wire.all_headers())
                    taken += response.status == 200
                    if response.status != 200:
                        words = json.loads(response.body)["error"]["message"]
                        reasons[re.sub(r"function '[^']*'|\[[^]]*\]|(?<=was )\S+", "…", words)[:90]] += 1
            return taken

        taken = asyncio.run(ask_all())
    return {
        "dialect": dialect,
        "model": model,
        "accepted": taken,
        "total": len(states),
        "refused": dict(reasons.most_common()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--as-recorded", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    states = states_of(args.folder, args.every)
    asking = list(MODELS.items())
    if args.as_recorded:
        asking = [("openai", OLDER_OPENAI), *(pair for pair in asking if pair[0] != "anthropic")]
    rows = [asked(dialect, model, states, args.as_recorded) for dialect, model in asking]
    for row in rows:
        print(f"{row['dialect']:<10}{row['model']:<18}{row['accepted']:>6} of {row['total']} accepted")
        for words, count in row["refused"].items():
            print(f"{count:>16} × {words}")
    if args.json:
        args.json.write_text(json.dumps({"as_recorded": args.as_recorded, "rows": rows}, indent=1) + "\n")
    raise SystemExit(any(row["accepted"] < row["total"] for row in rows))


if __name__ == "__main__":
    main()
