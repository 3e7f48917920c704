"""Notes that annotators derive from stored captures, and the graph of links with pages that are not stored.

An extra on top of the public interface of a store, which may be served.
"""
