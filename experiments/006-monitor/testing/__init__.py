"""The test set of behaviour: written without sight of the monitor's rules. See `authors`."""
