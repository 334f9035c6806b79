"""What docs/research/ray.md shows."""
