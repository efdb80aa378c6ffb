"""What a run would take: memory, lengths, refusals, and a check of the machine."""
