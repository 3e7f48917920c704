"""Readers of bodies that are not HTML, why a block is main text, and query words in a text."""
