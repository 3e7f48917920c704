"""One file a command: its arguments, its examples, and how its answer is shown."""
