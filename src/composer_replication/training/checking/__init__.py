"""Does a recipe work on this machine? Ten steps of it, what hints change, and whether zero means zero."""
