"""The tests that are left pass for the agent, with the repository's own settings; what is missing is named early."""

import pytest

from composer_replication.environments.code.certificates import agents_tests
from composer_replication.environments.code.certificates.agents_tests import red_for_agents
from composer_replication.environments.code.certificates.certify import certify
from composer_replication.environments.code.certificates.gates import Bench
from composer_replication.environments.code.making.make import MakeSettings, make
from composer_replication.environments.code.running.coverage import missing_imports, survey, tell_missing
from composer_replication.environments.code.running.warm import TestSetup
from composer_replication.environments.code.sandbox.interface import Limits
from composer_replication.environments.code.tasks.store import read_tasks
from composer_replication.environments.code.tasks.task import Rejection
from composer_replication.errors import UsageError
from tests.notes import Notes
from tests.tiny_repository import FILES, stubbed_rectangle, tiny_repository, write_files

SETTINGS = '[project]\nname = "tiny-shapes"\n[tool.pytest.ini_options]\n'
NOISE = "import warnings\n\n\ndef test_warns():\n    warnings.warn('x')\n\n\ndef test_quiet():\n    pass\n"
TRIES = "try:\n    import maybe\nexcept ImportError:\n    maybe = None\n\n\ndef test():\n    import later\n"


def test_options_of_a_plugin_that_is_not_there_do_not_matter(tmp_path):
    repository = tiny_repository(tmp_path, {"pyproject.toml": SETTINGS + 'addopts = "--cov shapes"\n'})
    assert red_for_agents(repository, TestSetup()) == frozenset()


def test_a_suite_that_does_not_start_for_the_agent_is_refused(tmp_path):
    repository = tiny_repository(tmp_path, {"pyproject.toml": SETTINGS + 'addopts = "-k (unbalanced"\n'})
    with pytest.raises(UsageError, match="is red where an agent runs it"):
        red_for_agents(repository, TestSetup())


def test_a_suite_may_take_longer_than_a_command_of_an_agent(tmp_path, monkeypatch):
    _, *others = Limits.__init__.__defaults__
    monkeypatch.setattr(Limits.__init__, "__defaults__", (3.0, *others))
    slow = "import time\n\n\ndef test_slow():\n    time.sleep(4)\n"
    assert red_for_agents(tiny_repository(tmp_path, {"tests/test_slow.py": slow}), TestSetup()) == frozenset()


def test_a_suite_that_is_stopped_is_told_as_such_and_not_run_again(tmp_path, monkeypatch):
    """The first red test of another run is not the reason, and that run takes as long."""
    monkeypatch.setattr(agents_tests, "LONGEST_SUITE_S", 4.0)
    slow = "import time\n\n\ndef test_red():\n    assert 'red' == 'green'\n\n\ndef test_slow():\n    time.sleep(60)\n"
    with pytest.raises(UsageError, match=r"is red where .*: it was stopped before its end \(timeout\)"):
        red_for_agents(tiny_repository(tmp_path, {"tests/test_slow.py": slow}), TestSetup())


def test_a_suite_that_cannot_be_collected_is_refused_with_the_reason(tmp_path):
    """As where a compiled module was not built: only the last file of the list was named."""
    changes = {"shapes/__init__.py": "from . import _fast\n" + FILES["shapes/__init__.py"]}
    with pytest.raises(UsageError, match=r"is red where an agent runs it .*cannot import name '_fast'"):
        red_for_agents(tiny_repository(tmp_path, changes), TestSetup())


def test_what_is_red_by_the_repositorys_own_settings_is_known(tmp_path):
    changes = {
        "pyproject.toml": SETTINGS + 'filterwarnings = ["error"]\n',
        "tests/test_noise.py": NOISE,
        "tests/test_absent.py": "import absent_package\n\n\ndef test_nothing():\n    pass\n",
    }
    repository = tiny_repository(tmp_path, changes)
    assert red_for_agents(repository, TestSetup()) == {"tests/test_noise.py::test_warns", "tests/test_absent.py"}


def test_no_agent_sees_a_red_test(tmp_path):
    """Ours is green without the settings: before, the statement said that a test passes which does not."""
    changes = {"pyproject.toml": SETTINGS + 'filterwarnings = ["error"]\n', "tests/test_noise.py": NOISE}
    source = write_files(tmp_path / "source", {**FILES, **changes})
    heard = Notes()
    settings = MakeSettings(generators=("tests.tiny_repository:propose_shout",))
    made = make(source, tmp_path / "tasks", settings, jobs=1, progress=heard)
    assert made["valid"] == 1
    assert "left out, being red before anything is changed: 1, first tests/test_noise.py::test_warns" in heard.said
    (task,) = read_tasks(tmp_path / "tasks")
    assert "test_warns" not in (task.tree / "tests" / "test_noise.py").read_text()
    assert "test_quiet" in (task.tree / "tests" / "test_noise.py").read_text()


def test_a_tree_that_is_red_for_the_agent_is_rejected(tmp_path):
    """The gate itself: nobody looked at the settings before."""
    changes = {"pyproject.toml": SETTINGS + 'filterwarnings = ["error"]\n', "tests/test_noise.py": NOISE}
    repository = tiny_repository(tmp_path, changes)
    bench = Bench(repository, survey(repository), TestSetup())
    (tmp_path / "into").mkdir()
    try:
        result = certify(stubbed_rectangle(), bench, tmp_path / "into", "L0").result
    finally:
        bench.close()
    assert isinstance(result, Rejection) and result.reason == "agents_tests_fail"
    assert "test_warns" in result.detail


def test_missing_imports_are_found_without_running_anything(tmp_path):
    changes = {
        "tests/test_one.py": "import numpy.linalg\nfrom absent import x\nimport pytest\nimport helper\n",
        "tests/helper.py": "",
        "tests/test_two.py": TRIES,
    }
    repository = tiny_repository(tmp_path, changes)
    missing = missing_imports(repository, TestSetup())
    assert missing == {"absent": ("tests/test_one.py",), "numpy": ("tests/test_one.py",)}
    told = tell_missing(repository, missing)
    assert "absent (1 files)" in told and "--with numpy" in told
    with pytest.raises(UsageError, match="need yaml"):
        tell_missing(repository, {"yaml": ("tests/conftest.py",)})
