"""Reading: rows as documents, general cells, which row answers a URL, snippets, one page of each cluster."""
