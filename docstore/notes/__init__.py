"""Notes: what annotators say of stored captures, and what links say of pages that are not stored.

An extra on top of the public class of a store, which may be one that a server holds; nothing imports it.
"""
