"""Everything that contains private values: how they are stored, parsed and copied, and what errors may mention."""
