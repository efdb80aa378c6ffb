"""Whether the output of a command shows that the command failed.

For agents that record no exit status, and for commands that hide theirs. Only what programs print about themselves
counts; a command that merely shows files may print anyone's errors.
"""

from __future__ import annotations

import re

from .shell import only_reads

TAIL_LINES = 80
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

OWN_ERRORS = re.compile(
    r"^(?!.*(?:Broken pipe|write error))(?:(?:/\S+/)?-?(?:bash|sh|zsh|dash)(?:: line \d+| ?\d+)?: .*"
    r"(?:not found|No such file|Permission denied|syntax error|cannot |unexpected|Is a directory|Not a directory|ambiguous|missing)"
    r"|(?:cat|ls|cd|rm|cp|mv|mkdir|rmdir|grep|egrep|rg|sed|awk|find|head|tail|touch|chmod|ln|tar|unzip|zip|patch|diff|"
    r"sort|stat|wc|xargs|du|tee|which|python[\d.]*|pip\d?|node|curl|wget|touch|git|tree|file|jq)"
    r": .*(?:No such file|cannot |can't |Is a directory|Not a directory|Permission denied|not found|invalid|"
    r"illegal|missing operand|unrecognized|unknown|error|unexpected|doesn't know|expression)"
    r"|.*: command not found$|(?:fatal|usage): |(?:sed|awk): -e expression"
    r"|'[\w.-]+' is not recognized as)",
    re.MULTILINE,
)  # fmt: skip
RUN_FAILURES = re.compile(
    r"^Traceback \(most recent call last\):"
    r"|^=+ .*\b\d+ (?:failed|errors?)\b.*=+$|^(?:FAILED|ERROR) \S+(?:::| - )|^E   \S"
    r"|^\s*Tests?:? +\d+ failed|^\s*Test Files +\d+ failed|^ ?FAIL\s|^--- FAIL: |^not ok \d|\b\d+ failing$"
    r"|\b(?:tests?|examples?|doctests?|assertions?), .*\b[1-9]\d* (?:failures?|errors?)\b"
    r"|^FAILED \((?:failures|errors)=|^error(?:\[E\d+\])?: |^test result: FAILED|^npm (?:ERR!|error) "
    r"|^make(?:\[\d+\])?: \*\*\* |\berror TS\d+: |^BUILD FAILED|^FAILURE: |^ERROR: |^fatal: |^panic: "
    r"|^Segmentation fault|^\S+:\d+:\d+: (?:fatal )?error: |ELIFECYCLE|^\S+: error: "
    r"|^(?:failed|unable) to \w[^\n]*: |^Killed$|^CONFLICT |^error Command failed|^FAIL: |^Uncaught |^\w*Error \[",
    re.MULTILINE,
)  # fmt: skip
PASSED = re.compile(
    r"^\s*[1-9]\d* pass\n\s*0 fail\b.*|^=+ [1-9]\d* passed\b(?!.*\b(?:failed|errors?)\b).*"
    r"|^\s*Test Files +[1-9]\d* passed (?!.*failed).*\n\s*Tests? +[1-9]\d* passed (?!.*failed).*|^OK(?: \(.*\))?$|^test result: ok\..*",
    re.MULTILINE,
)
"""A run that counts its failures and has none: what stands above it are errors that its tests provoked."""
LAST_WORDS = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception)(?::|$)", re.MULTILINE)
LAST_LINES = 3
_USAGE = "usage: "
_ASKS_FOR_HELP = re.compile(r"\s(?:--help|-h)\b")
CUT_RUN = re.compile(r"\btests?\b.*\|\s*head\b")


def behind_passing_runs(output: str) -> str:
    """What stands after the last run that passed."""
    return output[max((match.end() for match in PASSED.finditer(output)), default=0) :]


def _without_logged_errors(output: str) -> str:
    """Where the summary of a test run is cut off, a line `error: …` may be one that a test provoked."""
    lines = output.splitlines()
    return "\n".join([*lines[:LAST_LINES], *(line for line in lines[LAST_LINES:] if not line.startswith("error: "))])


def shows_failure(command: str, output: str) -> str | None:
    """The line that tells of the failure, or None."""
    text = _ANSI.sub("", output)
    lines = text.splitlines()
    shown = "\n".join(lines[:TAIL_LINES] + lines[-TAIL_LINES:] if len(lines) > 2 * TAIL_LINES else lines)
    places = [(OWN_ERRORS, shown)]
    if not only_reads(command):
        shown = behind_passing_runs(shown if not CUT_RUN.search(command) else _without_logged_errors(shown))
        places += [(RUN_FAILURES, shown), (LAST_WORDS, "\n".join(shown.rstrip().splitlines()[-LAST_LINES:]))]
    for pattern, where in places:
        for match in pattern.finditer(where):
            if not (match[0].startswith(_USAGE) and _ASKS_FOR_HELP.search(command)):
                return where[match.start() :].split("\n", 1)[0].strip()
    return None
