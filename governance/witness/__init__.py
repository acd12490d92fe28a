"""A witness: it remembers the largest head of each log that it was shown, and cosigns what continues it."""
