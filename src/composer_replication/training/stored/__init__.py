"""Stored traces, hints and pairs as token rows."""
