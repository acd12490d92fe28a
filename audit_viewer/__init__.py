"""Read-only views of a log: they look, they never write."""
