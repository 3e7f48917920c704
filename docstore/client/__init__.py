"""A store that a server holds, with the interface of `DocumentStore`.

Knows `wire`, the types that reading and writing give, and the standard library's HTTP; must not know a backend.
"""
