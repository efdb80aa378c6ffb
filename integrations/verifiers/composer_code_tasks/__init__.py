"""Code tasks of composer-replication under the name by which verifiers finds them: `vf-eval composer-code-tasks`."""

from composer_replication.environments.code.serving.verifiers_taskset import (
    CodeHarness,
    CodeTaskEnv,
    CodeTaskset,
    load_environment,
)

__all__ = ["CodeHarness", "CodeTaskEnv", "CodeTaskset", "load_environment"]
