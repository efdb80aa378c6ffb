"""Agents that people use, at work on code tasks: their provider is a capture proxy that samples from the policy."""
