"""Reproductions of published figures, run as modules: `python -m benchmarks.<name>`."""
