"""One algorithm per file; none of them sees private data."""
