"""The operator's page at `/`: what a store holds, and one page of it at a time.

HTML made by the server, readable without JavaScript.  No byte of a stored page reaches HTML unescaped; nothing is
loaded from elsewhere.
"""
