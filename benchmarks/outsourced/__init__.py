"""What docs/research/outsourced.md shows."""
