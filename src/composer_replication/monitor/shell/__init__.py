"""Shell commands: a script as a flat list of commands, and what each of its programs does, as acts."""
