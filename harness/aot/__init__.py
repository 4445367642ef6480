"""Kernels to machine code without a device: what is compiled, what the code says, what holds it.

    spec -> configurations -> recorded launches -> machine code -> figures -> gates -> results

`units` records what a spec's launcher launches, `machine` compiles it, `nvidia` and `amd` read
registers, spills and instructions off the machine code, `operands` how wide each argument is read,
`occupancy` follows from them; `gate` holds the figures to the spec's claims and the target's
limits. `build` does it for many kernels and targets at once, in worker processes, with a cache.
"""
