"""Budgets, conversions, and the durable ledger."""
