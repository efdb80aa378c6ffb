"""Experiments that train a coding model with adapters on code tasks, in segments that may be made on other machines."""
