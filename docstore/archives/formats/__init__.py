"""Records in and out: WARC, ARC, TREC Web, JSON Lines."""
