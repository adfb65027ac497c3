"""gpu-ownership-exporter: who holds each GPU of this node, what it really does, and who answers and pays for it.

The map of the house, in the order in which the data flows:

- `exporter.pipeline`: READ THIS FIRST. One cycle: take a snapshot, attribute it, account for it, publish it.
- `exporter.sources`: the outside world becomes values (NVML, the kubelet, /proc, the Kubernetes API). All the I/O.
- `exporter.attribution`: who holds what and who uses what. Pure.
- `exporter.accounting`: what it adds up to. Pure.
- `exporter.store`: what it added up to survives a restart.
- `exporter.exposition`: values become what Prometheus, people and probes read.
- `exporter.model`: the nouns that two or more rooms share.
- `exporter.edge`: what the rooms with I/O share: what is asked of them, a thread for calls that may hang, log lines.
- `exporter.catalogue`: every metric family in one table.
- `exporter.app`: the composition root. `exporter.cli`: argv becomes a command.
- `exporter.simulator`: a simulated node, for the demo and the tests.
"""
