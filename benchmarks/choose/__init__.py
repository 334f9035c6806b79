"""What docs/choose.md shows."""
