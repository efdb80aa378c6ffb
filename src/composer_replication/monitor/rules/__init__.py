"""The command layer: rules over acts, whatever they were spelled in."""
