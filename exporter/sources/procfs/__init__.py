"""The host's /proc: what the processes that NVML names are, and in which control groups. The only reader of it."""
