"""The laboratory: statistics of words; nothing else imports it."""
