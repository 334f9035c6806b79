"""What docs/research/measurements.md shows."""
