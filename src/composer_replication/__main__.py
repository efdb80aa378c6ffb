"""The entry point: nothing is loaded before an interrupt can be told in one line."""

import os
import sys


def main() -> None:
    if sys.platform == "win32":
        print("error: Windows has no file locks of the kind that runs need; next: install it in WSL 2", file=sys.stderr)
        sys.exit(2)
    try:
        from composer_replication.cli.main import main as recompose

        recompose()
    except KeyboardInterrupt:
        print("error: interrupted; next: run the same command again", file=sys.stderr, flush=True)
        # Where an interrupt hits code compiled from text, CPython overrides every other exit code with the signal's.
        os._exit(130)


if __name__ == "__main__":
    main()
