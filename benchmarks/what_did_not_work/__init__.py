"""What docs/research/what-did-not-work.md shows."""
