"""Code tasks for other frameworks: OpenEnv, TRL, verifiers."""
