"""Pages out: WARC 1.1, TREC Web, JSON Lines."""
