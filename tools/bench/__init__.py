"""Every number in the docs: one harness, `python -m tools.bench`, and scripts that stand alone."""
