"""Duplicates among pages where they lie, on a Spark cluster and without a store."""
