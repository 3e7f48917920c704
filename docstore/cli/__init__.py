"""The terminal: arguments in, text or JSON out; no logic."""
