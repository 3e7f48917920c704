"""The sweep: all pairs, clusters, canonical pages; what is left when duplicates go."""
