"""Playing a task: tools, sessions, agents, transcripts, evidence."""
