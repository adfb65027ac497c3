"""What it adds up to. Pure: the ledger comes in, a new one goes out; elapsed time comes in as a number."""
