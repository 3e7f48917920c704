"""Compaction of a store: its steps, moving a tablet's values, which bases they have, which segments and bases go."""
