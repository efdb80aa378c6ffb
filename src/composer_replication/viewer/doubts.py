"""Why a pair might be a bad one, and who voted how, in plain sentences. Reads stored records; writes text.

A doubt is a reason to look, not a verdict: a good pair may have some, and a bad one none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from composer_replication.records import JsonObject, canonical_json, json_object

LONGER = 3
"""How many times longer one side must be before its length is worth a word."""
FEWEST_CHARS = 120
"""Below this many characters more, nobody learns length from it."""
LOW_PRECISION = 0.8
ENOUGH_FAMILIES = 3


def doubts(pair: Mapping[str, Any]) -> dict[str, str]:
    """By name, the most serious first."""
    found = {
        "same call": _same_call(pair),
        "text against call": _text_against_call(pair),
        "low agreement": _low_agreement(pair),
        "low precision": _low_precision(pair),
        "no error": "" if pair["kind"] else "No error was found at this turn: only the teachers say that it is wrong.",
        "length": _length(pair),
        "off-policy": "The rejected side is another agent's turn, which the policy might never write."
        if pair["off_policy"]
        else "",
    }
    return {name: says for name, says in found.items() if says}


def kept_because(pair: Mapping[str, Any], agent: str) -> str:
    agreement, kind = pair["agreement"], pair["kind"]
    families = _listed(agreement["families"])
    match = "" if agreement["tier"] == "single" else f" (match: {agreement['tier']})"
    call = "gave this call" if agreement["votes"] == 1 else "gave the same call"
    whose = {"actor": f"the actor's ({agent})", "policy": "the policy's own", "teacher": "a teacher's"}
    failed = f"failed with {kind.replace('_', ' ')}" if kind else "shows no error of its own"
    return (
        f"Kept because {agreement['votes']} of {agreement['n']} families {call}{match}: {families}; "
        f"the rejected side is {whose[pair['rejected_from']]} and {failed}."
    )


def who_voted(replies: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> str:
    """`replies` as the answers show them."""
    groups: dict[str, list[str]] = {}
    wanted = (chosen.get("tool_calls") or [{}])[0].get("function", {}).get("name")
    for reply in replies:
        action = reply["action"]
        if reply["voted_for_chosen"]:
            how = "for the chosen call"
        elif reply["no_vote"] or action is None:
            how = f"no vote ({reply['no_vote'] or 'no call'})"
        else:
            how = f"for {action.get('name')}" + (" with other arguments" if action.get("name") == wanted else "")
        groups.setdefault(how, []).append(reply["name"])
    return "; ".join(f"{_listed(names)}: {how}" for how, names in groups.items())


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _functions(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [call["function"] for call in message.get("tool_calls") or ()]


def _same_call(pair: Mapping[str, Any]) -> str:
    chosen, rejected = _functions(pair["chosen"]), _functions(pair["rejected"])
    if not chosen or [each["name"] for each in chosen] != [each["name"] for each in rejected]:
        return ""
    # As text: in Python 1, 1.0 and True are equal, and a tool may take only one of them.
    sides = [[canonical_json(_spelled(json_object(each["arguments"]))) for each in side] for side in (chosen, rejected)]
    return "Both sides make the same call but for blanks or empty arguments." if sides[0] == sides[1] else ""


def _spelled(value: Any) -> Any:
    """What is left of arguments when blanks are evened out and empty ones left out. Types stay: 87 is not "87"."""
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        return {name: _spelled(inner) for name, inner in fields.items() if inner not in (None, "", [], {})}
    if isinstance(value, list):
        return [_spelled(inner) for inner in cast("list[Any]", value)]
    return " ".join(value.split()) if isinstance(value, str) else value


def _text_against_call(pair: Mapping[str, Any]) -> str:
    chosen, rejected = (bool(pair[side].get("tool_calls")) for side in ("chosen", "rejected"))
    if chosen == rejected or pair["kind"] in ("json_decode", "no_action"):  # the form is the error there
        return ""
    return f"The chosen side is {_form(chosen)}, the rejected one {_form(rejected)}: the pair may teach the form alone."


def _form(is_call: bool) -> str:
    return "a call" if is_call else "text without a call"


def _low_agreement(pair: Mapping[str, Any]) -> str:
    votes, n = pair["agreement"]["votes"], pair["agreement"]["n"]
    if pair["agreement"]["tier"] == "single":
        return "One family's word stands against samples of the policy; nobody agreed with it."
    if n < ENOUGH_FAMILIES:
        return f"Only {n} families could vote."
    least = math.ceil(2 * n / 3)
    return f"{votes} of {n} families is the least that counts." if votes <= least and votes < n else ""


def _low_precision(pair: Mapping[str, Any]) -> str:
    precision = pair["precision"]
    is_low = precision is not None and precision < LOW_PRECISION
    return f"Of such votes {precision:.0%} were right where it was measured." if is_low else ""


def _chars(message: Mapping[str, Any]) -> int:
    called = sum(len(each["name"]) + len(each["arguments"]) for each in _functions(message))
    return len(message["content"]) + called


def _length(pair: Mapping[str, Any]) -> str:
    chosen, rejected = (_chars(pair[side]) for side in ("chosen", "rejected"))
    longer, shorter = max(chosen, rejected), max(1, min(chosen, rejected))
    if longer < LONGER * shorter or longer - shorter < FEWEST_CHARS:
        return ""
    which = "chosen" if chosen > rejected else "rejected"
    times = f"{longer / shorter:.0f} times"
    return f"The {which} side is {times} longer ({chosen:,} against {rejected:,} characters): it may teach length."
