"""A store copied into another one, of whatever backend: `docstore copy`."""
