"""Archives in and out: WARC, ARC, TREC Web, JSON Lines; read ahead of the store."""
