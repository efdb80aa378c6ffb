"""Test writing: the tests of a feature are gone and the agent writes new ones. The entry is `generate.propose`."""
