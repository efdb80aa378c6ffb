"""Was this reward earned? Reads traces and what attempts left behind; writes findings and a probability."""
