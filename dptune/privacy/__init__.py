"""The trusted side: losses, noise, queries and the privatizer."""
