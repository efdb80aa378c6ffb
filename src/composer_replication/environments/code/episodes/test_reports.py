"""What a policy reads of a run of visible tests: how many fail, and of each the lines that say why.

Reads what pytest printed with `-rA --tb=short`. Times and places are left out, so that the same failure reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .session import TestReport

MOST_FAILURES = 3
MOST_LINES = 8
MOST_CHARS = 1200
LAST_LINES = 12
_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_SECTION = re.compile(r"^_{3,} (?:ERROR \w+ (?:of |at \w+ of )?|ERROR collecting )?(.+?) _{3,}$", re.MULTILINE)
_ENDS = re.compile(r"^={3,} |^-{3,} Captured", re.MULTILINE)
_PLACE = re.compile(r"^\S+:\d+: ")
_NOISE = re.compile(
    r"^(?:E\s+)?(?:(?:AssertionError: )?\*+|Line \d+, in .*|Use -v to get more diff|check\(.*\)"
    r'|Traceback \(most recent call last\):|File "[^"]*", line \d+, in .*|exec\(compile\(example\.source, .*'
    r"|compileflags, True\), .*|[\^~]+|assert not told, .*)?$"
)
"""Of a failed example of the documentation, also the way through `doctest` to it."""
PUT_IN = "The block was put in"


def outcomes(printed: str) -> dict[str, bool]:
    """Test id -> whether it passed."""
    found: dict[str, bool] = {}
    for outcome, test in _OUTCOME.findall(printed):
        found[test] = outcome == "PASSED" and found.get(test, True)
    return found


def test_report(printed: str, covering: Collection[str]) -> TestReport:
    """`covering` are the tests that run what was asked for; others only show that nothing else broke."""
    told = outcomes(printed)
    failing = [test for test, passed in told.items() if not passed]
    if failing or (printed and not told):
        number = f"{len(failing)} of {len(told)} visible tests fail" if told else "the visible tests could not run"
        return TestReport(f"{PUT_IN}, and {number}.\n{_reasons(printed)}"[:MOST_CHARS].rstrip(), failed=True)
    if not covering:
        return TestReport(f"{PUT_IN}; no visible test covers it. The work is handed in.", failed=False)
    return TestReport(f"{PUT_IN}, and {len(told)} visible tests pass. The work is handed in.", failed=False)


test_report.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]


def _reasons(printed: str) -> str:
    parts = _SECTION.split(printed)
    titles, bodies = parts[1::2], parts[2::2]
    told = [f"{title}:\n{_shown(body)}" for title, body in zip(titles, bodies, strict=True)]
    if not told:
        return "\n".join(printed.strip().splitlines()[-LAST_LINES:])
    left = f"\n({len(told) - MOST_FAILURES} more)" if len(told) > MOST_FAILURES else ""
    return "\n".join(told[:MOST_FAILURES]) + left


def _shown(body: str) -> str:
    """The line of the test that failed and what pytest says of it."""
    text = _ENDS.split(body, maxsplit=1)[0]
    lines = [
        line for line in text.splitlines() if line.strip() and not _PLACE.match(line) and not _NOISE.match(line.strip())
    ]
    said = [line for line in lines if line.startswith("E ")] or lines
    first = next((line.strip() for line in lines if not line.startswith("E ")), "")
    reasons = [line.removeprefix("E").strip() for line in said[:MOST_LINES]]
    return "\n".join(f"  {line}" for line in dict.fromkeys([first, *reasons]) if line)
