"""results/metrics.jsonl to results/curves.svg, the figure of README.md."""

import json
from pathlib import Path

from composer_replication.evaluation.charts import line_chart

RESULTS = Path(__file__).parent / "results"
PANELS = {
    "reward": ("mean reward", "policy"),
    "rollout/error_turns_per_turn": ("turns with an error", "policy"),
    "channel/sdpo": ("channel 2: divergence", "sdpo"),
    "channel/replay": ("channel 3: loss", "replay"),
    "entropy": ("entropy, nats", "reward"),
    "frac_reward_zero_std": ("flat groups", "reward"),
}
STYLE = (
    "text{font:12px sans-serif;fill:#555}text.head{font-size:14px;fill:#111}.grid{stroke:#ddd}"
    ".curve{fill:none;stroke-width:2.2}.raw{stroke-width:1.2;opacity:.4}.policy{stroke:#1667b7}.sdpo{stroke:#2e7d4f}.replay{stroke:#7a4fb5}.reward{stroke:#333}"
)
WIDTH, HEIGHT, COLUMNS = 440, 235, 3


def main() -> None:
    lines = [json.loads(line) for line in (RESULTS / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "grad_norm" in line]
    parts: list[str] = []
    for place, (key, (title, kind)) in enumerate(PANELS.items()):
        x, y = place % COLUMNS * WIDTH, place // COLUMNS * HEIGHT
        chart = line_chart(title, [(line["step"], line.get(key)) for line in steps], kind)
        sized = chart.replace("<svg ", f'<svg x="{x}" y="{y + 24}" width="430" height="200" ', 1)
        parts.append(f'<text class="head" x="{x + 52}" y="{y + 20}">{title}</text>{sized}')
    rows = -(-len(PANELS) // COLUMNS)
    size = f'width="{COLUMNS * WIDTH}" height="{rows * HEIGHT}"'
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    page = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>{background}{"".join(parts)}</svg>'
    (RESULTS / "curves.svg").write_text(page + "\n")


if __name__ == "__main__":
    main()
