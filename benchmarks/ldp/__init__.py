"""What docs/research/ldp.md shows."""
