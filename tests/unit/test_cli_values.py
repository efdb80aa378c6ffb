"""Values that a command refuses at once, before it works for minutes or describes what will not happen."""

import pytest

from composer_replication.cli.quickstart import quickstart
from composer_replication.errors import UsageError


def test_quickstart_refuses_a_file_that_reads_nothing_before_the_warm_up(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text("[ingestion]\nredact = true\n")
    with pytest.raises(UsageError, match=r"my\.toml: \[ingestion\] reads nothing"):
        quickstart(config=config, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
