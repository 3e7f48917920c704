"""A store served over HTTP, and its client; a file for each subject.

`wire` is what both sides say, `client*` is the client, all else is the server (extra `docstore[server]`).
Whatever the server does to a store, a Python program with `docstore.open` can do as well; it knows nothing of segments
or LevelDB.
"""
