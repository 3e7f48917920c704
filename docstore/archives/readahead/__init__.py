"""Archives read ahead of the store, in this process or in one beside it."""
