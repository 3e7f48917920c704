"""A real HBase cluster of separate processes on this machine, for tests: see `__main__`."""
