"""A taskset of verifiers as an environment, played in a process of its own."""
