"""The control text of a hint: the same form and length, about another kind of error, with no fact of the site.

Training on shams instead of hints shows how much of a gain comes from any text at all.
"""

from __future__ import annotations

from itertools import pairwise

from composer_replication.records import ErrorSite, content_id

from .facts import TOOLBOX
from .templates import HINT_TEMPLATES
from .wording import PIECE, PREFIX, count_tokens, sentences

# Templates as they ship: one that a user registered may need facts, and a sham has none.
_TEMPLATES = dict(HINT_TEMPLATES)
_LEANS_ON = {
    later: sooner.removeprefix(PREFIX)
    for template in _TEMPLATES.values()
    for sooner, later in pairwise(sentences(template({})))
}
# The embedded model knows only the words of these, so their shams are made of one another.
_TOOLBOX_KINDS = frozenset({"tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure"})
# These say of the very step that it fails, which is true of every site: a warning, and so no control.
_FORETELLS = frozenset({"exit_code", "repeated_failure"})
# Within one of these a reminder for one kind would be good advice for the other.
_TOPICS = (
    frozenset({"no_action", "json_decode"}),
    frozenset({"edit_mismatch", "edit_precondition", "file_not_found"}),
    frozenset({"exit_code", "silent_failure", "timeout", "runtime_error", "repeated_failure"}),
    frozenset({"permission", "hook_block", "user_rejection", "interruption", "correction"}),
    frozenset({"style", "communication", "effort"}),
)


def sham_of(site: ErrorSite, tokens: int) -> str:
    """About as long as the hint: within two tokens or a tenth. The site's id decides which kinds it speaks of."""
    slack = max(2, tokens // 10)
    unused, text = _sentences(site), ""
    # Where most reminders would be needed the search for some that fit could take for ever.
    roomy = sum(map(count_tokens, unused)) >= 2 * tokens and not _of_toolbox(site)
    whole = _of_whole_reminders(text, unused, tokens - slack, tokens + slack) if roomy else None
    while whole is None:
        longer = {_join(text, sentence): sentence for sentence in unused if text or sentence.startswith(PREFIX)}
        fitting = [option for option in longer if count_tokens(option) <= tokens + slack]
        close = next((option for option in fitting if count_tokens(option) >= tokens - slack), None)
        if close or not fitting:
            return close or _cut(next(iter(longer)), tokens)
        text = fitting[0]
        # To the end with it: a long sham repeats itself as late as possible.
        unused = [sentence for sentence in unused if sentence != longer[text]] + [longer[text]]
    return whole


def _of_whole_reminders(text: str, unused: list[str], least: int, most: int) -> str | None:
    """The text and more sentences, none behind another than the one it leans on; None where no number of them fits."""
    for sentence in unused:
        if not (sentence.startswith(PREFIX) or text.endswith(_LEANS_ON[sentence])):
            continue
        longer = _join(text, sentence)
        if count_tokens(longer) > most:
            continue
        rest = [other for other in unused if other != sentence]
        found = longer if count_tokens(longer) >= least else _of_whole_reminders(longer, rest, least, most)
        if found:
            return found
    return None


def _of_toolbox(site: ErrorSite) -> bool:
    return site.detector.startswith(TOOLBOX) and site.error_kind in _TOOLBOX_KINDS


def _join(text: str, sentence: str) -> str:
    """One reminder, however many it is made of: a capital letter would be foreign to the embedded model."""
    if text and sentence.startswith(PREFIX):
        return f"{text.removesuffix('.')}, and {sentence.removeprefix(PREFIX)}"
    return f"{text} {sentence}".strip()


def _cut(text: str, tokens: int) -> str:
    end = list(PIECE.finditer(text))[max(tokens, 2) - 2].end()
    return f"{text[:end].rstrip(',;:')}."


def _sentences(site: ErrorSite) -> list[str]:
    """What other kinds' reminders say without facts, kind after kind."""
    kinds = sorted(_other_kinds(site), key=lambda kind: content_id(site.site_id, kind))
    return [sentence for kind in kinds for sentence in sentences(_TEMPLATES[kind]({}))]


def _other_kinds(site: ErrorSite) -> frozenset[str]:
    own = {kind for kind in (site.error_kind, site.secondary_kind) if kind}
    if _of_toolbox(site):
        return _TOOLBOX_KINDS - own
    related = own.union(*(topic for topic in _TOPICS if topic & own))
    return frozenset(_TEMPLATES) - related - _FORETELLS
