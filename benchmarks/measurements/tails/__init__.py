"""Losses with tails: whether a search improves the mean that was asked for, and says so only when it does."""
