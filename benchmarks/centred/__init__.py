"""What docs/research/centred.md shows."""
