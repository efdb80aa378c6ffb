"""The registered analysis by the shared code, which says what it reads and writes; its argparse takes the words.

recompose experiment rebuild experiments/016-who-teaches
"""

from pathlib import Path

from shared.analysis.rebuild import main

if __name__ == "__main__":
    main(Path(__file__).parent)
