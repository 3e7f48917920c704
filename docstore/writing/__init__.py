"""The write path: preparing, judging, encoding and committing pages, and changes of stored pages."""
