"""The archive API: CDX, TimeGate, TimeMap and raw replay of a store, for the clients that web archives have.

`app.archive_app` is all that others need.  Nothing here writes pages or sets cookies.
"""
