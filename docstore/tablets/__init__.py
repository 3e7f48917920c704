"""Large files: records, segments, the manifest of tablets."""
