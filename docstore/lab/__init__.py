"""The laboratory: statistics of words, curves of bands, and pictures; nothing else imports it."""
