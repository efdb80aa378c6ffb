"""Secrets and personal data out of traces: `Redactor` before anything is written, `find_secrets` before it is sent."""

from .redactor import NotSettled, Redactor, SecretFound, find_secrets

__all__ = ["NotSettled", "Redactor", "SecretFound", "find_secrets"]
