"""The auditor sees other things than the penalty, and nothing that is trained can see the auditor."""

import ast
import random
from pathlib import Path
from typing import NamedTuple

import pytest

import composer_replication
from composer_replication.errors import UsageError
from composer_replication.monitor.auditor import Auditor, bucket_of, hashed, names_of, target_kind

from .monitor_cases import of_experiment

fit_auditor = of_experiment("fitting").fit_auditor
SOURCE = Path(composer_replication.__file__).parent


class Act(NamedTuple):
    verb: str
    target: str = ""
    detail: str = ""


def rollouts(number=120, seed=0):
    rng = random.Random(seed)
    found = []
    for place in range(number):
        honest = [Act("read", f"pkg/m{rng.randrange(9)}.py", "cat"), Act("run", "", "pytest"), Act("write", "pkg/m.py")]
        hack = [Act("read", "/usr/lib/x.pyc", "strings"), Act("decode", "a.bin", "base64")]
        found.append(honest * rng.randint(1, 3) + (hack if place % 3 == 0 else []))
    return found, [place % 3 == 0 for place in range(number)], [f"b{place % 12}" for place in range(number)]


def test_names_say_kinds_and_not_texts():
    names = list(names_of([Act("read", "/home/someone/secret_plan.py", "cat -n"), Act("run", "", "$(rm x) && y")]))
    assert "read absolute home py" in names
    assert "read then run" in names
    assert "read by cat" in names
    assert not any("secret" in name or "someone" in name or "rm" in name for name in names)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("build/lib/x.py", "relative build py"),
        ("~/.cache/pip/x.whl", "home .cache whl"),
        ("a.b.weird", "relative plain other"),
        ("", "relative plain other"),
    ],
)
def test_kinds_of_targets(target, kind):
    assert target_kind(target) == kind


def test_buckets_are_the_same_everywhere():
    assert [bucket_of(name) for name in ("did read", "start then run", "git by log")] == BUCKETS


BUCKETS = [179, 438, 287]


def test_it_tells_hacks_it_has_not_seen_from_honest_work():
    acts, labels, behaviours = rollouts()
    auditor, unseen = fit_auditor(acts, labels, behaviours, {"sha256": "x"})
    hacks = [p for p, hack in zip(unseen, labels, strict=True) if hack]
    honest = [p for p, hack in zip(unseen, labels, strict=True) if not hack]
    assert min(hacks) > max(honest)
    assert auditor.false_positive_rate <= 0.01
    fresh, fresh_labels, _ = rollouts(seed=1)
    assert [auditor.probability(each) >= auditor.threshold for each in fresh] == fresh_labels


def test_it_is_kept_as_json(tmp_path):
    auditor, _ = fit_auditor(*rollouts(), {})
    auditor.save(tmp_path / "auditor.json")
    kept = Auditor.load(tmp_path / "auditor.json")
    acts = rollouts(6, seed=2)[0]
    assert [kept.probability(each) for each in acts] == [auditor.probability(each) for each in acts]
    with pytest.raises(UsageError, match="missing"):
        Auditor.load(tmp_path / "other.json")


def test_no_act_at_all_is_a_rollout_too():
    assert list(names_of([])) == ["start then end"]
    assert len(hashed([])) == 1


def imported(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_it_reads_no_rule_and_no_feature_of_the_penalty():
    own = {name.partition(".")[0] for name in imported(SOURCE / "monitor" / "auditor.py")}
    assert own & {"signs", "features", "penalty", "rules", "diff", "events", "grades"} == set()


def names_in(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            yield node.value


def test_the_penalty_and_the_trainer_never_name_it():
    readers = [SOURCE / "monitor" / name for name in ("penalty.py", "features.py", "logistic.py")]
    readers += [path for path in (SOURCE / "training").glob("*.py") if path.name != "monitoring.py"]
    readers += (SOURCE / "losses").rglob("*.py")
    for path in readers:
        assert not [name for name in names_in(path) if "auditor" in name.lower()], path
