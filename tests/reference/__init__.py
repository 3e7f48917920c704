"""Readable definitions of the measures that the lectures teach, which native code gives with the same bits."""
