"""A stand-in for NVIDIA's management library: a C library of our own that the unmodified nvidia-ml-py loads.

`build` compiles it, `state` writes what it shows (`script` a scripted load), `clock` is the GPUs' time, `loading` puts it
in place of the real one within a process.
"""
