"""Everything that keeps private values inside: how they are stored, parsed and copied, and what may be said of them."""
