"""What it added up to survives a restart: the ledger's state file. Bytes in and out; the codec is pure and handed in."""
