"""Reports over a store: shares of duplicates, words and their laws, pictures, coloured differences."""
