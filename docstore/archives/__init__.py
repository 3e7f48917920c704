"""Read and write archives (WARC, ARC, TREC Web, JSON Lines); ingest, export and copy stores."""
