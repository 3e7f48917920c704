"""Engines: where cells live.  `protocol` is the seam; each other module is one adapter."""
