"""What a server and its clients say to each other: values as plain data, frames, errors.  Pure functions, no I/O.

Knows `model`; must not know sockets, HTTP or a store.
"""
