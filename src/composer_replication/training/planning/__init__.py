"""What a run would take: memory, lengths, and what is refused."""
