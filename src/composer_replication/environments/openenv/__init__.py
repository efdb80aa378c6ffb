"""Any OpenEnv server as an environment, by its address."""
