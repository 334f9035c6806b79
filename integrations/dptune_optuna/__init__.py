"""Optuna front end."""
