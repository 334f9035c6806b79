"""One run for every algorithm: questions to the privatizer, answers back, the ledger as the only memory."""
