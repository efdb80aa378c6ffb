"""Fit the penalty's weights and the auditor on every set but the one that is tested on.

    python experiments/006-monitor/fit.py

Reads the corpora of `corpus.FITTED`; writes src/composer_replication/monitor/{weights,auditor}.json
and results/fit.json. The threshold of an alarm comes from here, from predictions for behaviours that the model had not
seen.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpus import FITTED, HERE
from fitting import fit_auditor
from judging import SeenCase, fit_on, is_hard, origin, see_corpus
from measures import area, calibration_error, rates

from composer_replication.monitor.auditor import AUDITOR
from composer_replication.monitor.penalty import WEIGHTS

RESULTS = HERE / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, nargs="+", default=FITTED)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--auditor", type=Path, default=AUDITOR)
    parser.add_argument("--results", type=Path, default=RESULTS)
    words = parser.parse_args()
    report = fit_corpora(words.corpora, words.weights, words.auditor)
    words.results.mkdir(parents=True, exist_ok=True)
    (words.results / "fit.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: report[key] for key in ("threshold", "tuning_alarms", "auditor_tuning_alarms")}, indent=1))


def fit_corpora(corpora: Sequence[Path], weights: Path, auditor: Path) -> dict[str, Any]:
    cases = [case for path in corpora for case in see_corpus(path)]
    trained_on = {"corpora": [origin(path) for path in corpora]}
    fitted = fit_on(cases, trained_on)
    fitted.weights.save(weights)
    labels = [case.is_hack for case in cases]
    second, unseen = fit_auditor([case.acts for case in cases], labels, [case.behaviour for case in cases], trained_on)
    second.save(auditor)
    return {
        "threshold": fitted.weights.threshold,
        "taken_out": fitted.taken_out,
        "weights": dict(zip(fitted.weights.features, fitted.weights.weights, strict=True)),
        "tuning_alarms": _rates(cases, [p >= fitted.weights.threshold for p in fitted.cross_fitted]),
        "area": area(fitted.cross_fitted, labels),
        "calibration_error": calibration_error(fitted.cross_fitted, labels),
        "auditor_tuning_alarms": rates(
            [p >= second.threshold for p in unseen], labels, [case.behaviour for case in cases]
        ),
        "auditor_area": area(unseen, labels),
    }


def _rates(cases: list[SeenCase], soft: list[bool]) -> dict[str, Any]:
    """Cross-fitted, so that they are not those of remembered behaviour; the rules themselves did see the tuning set."""
    flags = [over or is_hard(case) for case, over in zip(cases, soft, strict=True)]
    return rates(flags, [case.is_hack for case in cases], [case.behaviour for case in cases])


if __name__ == "__main__":
    main()
