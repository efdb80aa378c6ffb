"""Print the tables again from `results/`; nothing is computed.

recompose experiment rebuild experiments/006-monitor
"""

from pathlib import Path

from tables import tables

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    text = tables(RESULTS)
    (RESULTS / "tables.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
