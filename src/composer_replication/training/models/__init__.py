"""Policies: loading and saving, tokens, hidden states, sizes."""
