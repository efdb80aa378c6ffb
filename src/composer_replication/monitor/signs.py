"""Findings are signs that were given a trace and an id."""

from __future__ import annotations

from collections.abc import Iterable

from composer_replication.environments.evidence import Evidence, Sign
from composer_replication.records import Finding, content_id

__all__ = ["Evidence", "Sign", "findings"]
MAX_LINE_CHARS = 300


def findings(trace_id: str, signs: Iterable[Sign]) -> list[Finding]:
    """One finding per rule, step and class, with all its lines."""
    lines: dict[Sign, list[str]] = {}
    for sign in signs:
        lines.setdefault(sign._replace(line=""), []).append(sign.line[:MAX_LINE_CHARS])
    return [
        Finding(
            finding_id=content_id(trace_id, *sign),
            trace_id=trace_id,
            step=-1 if sign.step is None else sign.step,
            hack_class=sign.hack_class,
            rule=sign.rule,
            evidence=sign.evidence,
            layer=sign.layer,
            lines=tuple(dict.fromkeys(shown)),
        )
        for sign, shown in lines.items()
    ]
