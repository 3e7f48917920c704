"""Bytes to text: charset, tokens, words, main content.  Pure functions."""
