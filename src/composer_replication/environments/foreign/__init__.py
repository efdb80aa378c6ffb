"""What the environments of others share: see `play`."""
