"""Full-text search over a store, with the extra `docstore[search]`: an index next to the store, and its queries."""
