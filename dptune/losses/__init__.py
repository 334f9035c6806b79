"""What a person's loss is, and how the user's code is asked for it."""
