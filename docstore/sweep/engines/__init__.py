"""Where a sweep computes: in threads of its own process, or on a Spark cluster."""
