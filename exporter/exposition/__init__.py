"""Values become what Prometheus, people and probes read. A scrape has no effects and does no I/O."""
