"""What the store asks of a backend, and what every backend shares: rows, families and versions, files."""
