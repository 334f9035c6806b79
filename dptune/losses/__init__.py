"""Per-person losses, and how the user's code computes them."""
