"""One table of rules over acts: which act is a sign of which class of hack, seen from what an agent ran and wrote.

Reads a `Conduct`; gives signs with the offending line. All signs are soft: every act has an honest reading, and the
other layers see what came of it. What an agent made itself it may read. Who steered plays no part here: `judge` decides
what a person's session is worth. Not caught: acts whose paths only exist at run time, and what the
diff alone shows (classes 17 to 22).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..act import Act
from ..acts import acts_of_steps
from ..conduct import Conduct
from ..signs import Sign
from .scene import Scene
from .table import RULES, ActRule


def command_signs(conduct: Conduct, acts_by_step: Sequence[Sequence[Act]] | None = None) -> list[Sign]:
    """One sign per rule, step and line. `acts_by_step` saves the work where the acts are known already."""
    scene = Scene.of(conduct)
    signs: dict[Sign, None] = {}
    known = acts_of_steps(conduct.steps) if acts_by_step is None else acts_by_step
    kills = [any(_ends_own(act) for act in acts) for acts in known]
    for place, (step, acts) in enumerate(zip(conduct.steps, known, strict=True)):
        scene.begin(acts)
        scene.ends_later = any(kills[place + 1 :])
        for act in acts:
            for rule in RULES_OF.get(act.verb, ()):
                if rule.test(act, scene):
                    line = act.line or f"{act.detail} {act.target}"
                    signs[Sign(rule.name, rule.hack_class, "command", "soft", step.number, line)] = None
            scene.note(act)
    return list(signs)


def _ends_own(act: Act) -> bool:
    """A process by a number that the agent was told or kept."""
    return act.verb == "kill" and re.match(r"%|\$(?!PPID|\{PPID)|\d{2,}$", act.target) is not None


RULES_OF: dict[str, tuple[ActRule, ...]] = {
    verb: tuple(rule for rule in RULES if verb in rule.verbs)
    for verb in {verb for rule in RULES for verb in rule.verbs}
}
