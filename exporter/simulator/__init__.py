"""A simulated node: an NVML stand-in, a kubelet socket, a /proc tree and a Kubernetes API, all driven by one `World`.

Used by the demo command and by the tests; no other room imports it. Nothing here imitates our own code.
"""
