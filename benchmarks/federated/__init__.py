"""What docs/research/federated.md shows."""
