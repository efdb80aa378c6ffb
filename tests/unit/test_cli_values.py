"""Values that a command refuses at once, before it works for minutes or describes what will not happen."""

import pytest

from composer_replication.cli.env import make
from composer_replication.cli.model import fetch
from composer_replication.cli.quickstart import quickstart
from composer_replication.environments.code.generators.kinds import check_modes
from composer_replication.errors import UsageError


def test_quickstart_refuses_a_file_that_reads_nothing_before_the_warm_up(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text("[ingestion]\nredact = true\n")
    with pytest.raises(UsageError, match=r"my\.toml: \[ingestion\] reads nothing"):
        quickstart(config=config, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_quickstart_refuses_a_model_without_a_name(tmp_path):
    for name in ("", "  "):
        with pytest.raises(UsageError, match="--model has no name"):
            quickstart(model=name, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_gguf_that_is_not_there_is_refused_even_where_the_model_is(tmp_path, monkeypatch):
    monkeypatch.setattr("composer_replication.training.models.embedded.folder_of", lambda name: tmp_path)
    with pytest.raises(UsageError, match=r"there is no file .*nowhere\.gguf"):
        fetch("smollm2", gguf=tmp_path / "nowhere.gguf")
    other = tmp_path / "other.gguf"
    other.touch()
    with pytest.raises(UsageError, match="is not the GGUF whose sha256 is"):
        fetch("smollm2", gguf=other)


@pytest.mark.parametrize(
    ("generators", "modes", "message"),
    [
        (("feature_deletion",), ("shred",), "feature_deletion: there is no mode shred; next: one of stub"),
        (("bug_injection",), ("stub",), "bug_injection: there is no mode stub"),
        (("test_writing", "feature_deletion"), ("stub",), "test_writing has no mode stub; next: leave it out, or add"),
    ],
)
def test_a_mode_that_no_generator_has_is_refused_before_the_survey(tmp_path, generators, modes, message):
    with pytest.raises(UsageError, match=message):
        make(tmp_path, into=tmp_path / "tasks", generator=generators, mode=modes)
    assert not (tmp_path / "tasks").exists()


def test_generators_share_modes_and_unknown_generators_check_their_own():
    check_modes(("test_writing", "feature_deletion"), ("write-tests", "stub"))
    check_modes(("tests.tiny_repository:propose", "feature_deletion"), ("stub", "of-its-own"))
    check_modes(("tests.tiny_repository:propose",), ("of-its-own",))
