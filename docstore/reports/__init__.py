"""Reports over a store: damage, shares of duplicates, measures of two pages, differences of texts."""
