"""Folders of Harbor tasks that need only Python as an environment."""
