"""Predictions of time, memory, cost and energy from shapes, datasheets and measured constants.

    techniques' costs -> products, attention, what lies between -> a forward -> prefill and decode

A GPU is a roofline by tiles (`products`), whose four constants were fitted on published times of
one A100 (`published`) and stand for every other by its datasheet. A processor is a table of its own
operations as `harness calibrate` times them (`operations`, `attention`, `measured`), and a host
that takes so long a launch, a step, a prompt and a sequence (`local`); no technique is timed for
it. Each answer carries the factor within which times hold in 95 % of cases.

Left out: collectives between devices are fitted (`efficiency.link`) and enter no workload, since
nothing here runs on several; energy is bounded by the power limit, not predicted.
"""
