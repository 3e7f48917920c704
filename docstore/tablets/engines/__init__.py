"""Engines: where cells live.  `storage.engine` is the seam; each other module is one adapter."""
