"""Private selection: which of many trained models is best, paid once whatever their number."""
