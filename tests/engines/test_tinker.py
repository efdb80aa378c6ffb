"""The environment of the Tinker server is there."""

from pathlib import Path

ENVIRONMENT = Path(__file__).parents[2] / ".venv-tinker"


def test_the_server_has_an_environment_of_its_own():
    assert (ENVIRONMENT / "bin" / "python").exists()
