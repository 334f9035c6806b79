"""What docs/research/optuna.md shows."""
