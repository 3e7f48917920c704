"""Compaction of a store: its steps, moving a tablet's values, which bodies lean on which, when a shared body ends."""
