"""What docs/research/training.md shows."""
