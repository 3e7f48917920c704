"""The local backend: LevelDB, segments, dictionaries, the manifest, compaction, backup; one directory on one disk."""
