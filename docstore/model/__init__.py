"""The data model: types, keys, columns, encodings, the numbers that reach disk, errors."""
