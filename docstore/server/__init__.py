"""The HTTP server: one process holds a store, many ask it.  Needs the extra `docstore[server]`.

Knows the public class of a store, `wire`, sweeps and reports.  Must not know LevelDB, segments or how a page is
judged: whatever it does to a store, a Python program with `docstore.open` can do as well.
"""
