"""The only door to pynvml, split by question: devices, MIG instances, processes, and the one thread that asks."""
