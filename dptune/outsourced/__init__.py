"""Outsourced tuning: a curator releases a noisy table of features, a modeler chooses rows of it to evaluate."""
