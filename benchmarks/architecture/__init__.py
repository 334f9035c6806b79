"""What docs/architecture.md shows."""
