"""Fingerprints and verdicts.  The lower half is pure functions; the upper half stands on tables."""
