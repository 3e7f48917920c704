"""A store served over HTTP, and its clients; a file for each subject.

`wire` is what both sides say, `client*` and `aio` are the clients, all else is the server (extra `docstore[server]`).
Whatever the server does to a store, a Python program with `docstore.open` can do as well; it knows nothing of segments
or LevelDB.
"""
