"""Composer-style post-training from coding-agent traces, on open infrastructure."""

__version__ = "0.1.0"
