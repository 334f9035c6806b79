"""The curator's half of local privacy: bandits that learn from noisy replies."""
