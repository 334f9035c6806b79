"""What docs/research/sklearn.md shows."""
