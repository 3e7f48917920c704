"""Readers of bodies that are not HTML, why a block is main text, and where words stand in a text."""
