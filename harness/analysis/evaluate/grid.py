"""Made-up series: four kinds of noise, four strengths, four lengths, and a step in five of eight.

Lognormal noise by itself; with spikes (2 % of the nights 5 to 25 % higher); with a clock of two
states (3 % apart, each held for 6.7 nights); with a drift of 0.02 % a night, up or down.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from harness.analysis.evaluate.trials import AFTER, BEFORE, Trial, generator

SCENARIOS = ("plain", "spikes", "bimodal", "drift")
LENGTHS = (20, 40, 60, 100)
NOISES = (0.005, 0.01, 0.02, 0.05)
STEPS = (0.01, 0.02, 0.03, 0.05, 0.10)
# In each cell of the grid: so many series without a change, and so many with each size of step.
WITHOUT, WITH_EACH = 15, 5

SPIKE_SHARE, SPIKE_LEAST, SPIKE_MOST = 0.02, 0.05, 0.25
CLOCK, STAY = 0.03, 0.85
DRIFT = 0.0002
SEED = 7


def grid(seed: int = SEED) -> list[Trial]:
    """All 2,560 series of the grid, 960 of them without a change."""
    return list(_trials(seed))


def _trials(seed: int) -> Iterator[Trial]:
    steps = [(0.0, i) for i in range(WITHOUT)] + list(product(STEPS, range(WITH_EACH)))
    for scenario, length, noise, (step, i) in product(SCENARIOS, LENGTHS, NOISES, steps):
        name = f"{scenario}/{length} nights/noise {noise:.1%}/step {step:.0%}/{i}"
        yield made(seed, name, scenario, length, noise, step)


def made(seed: int, name: str, scenario: str, length: int, noise: float, step: float) -> Trial:
    """One series of the scenario."""
    random = generator(seed, name)
    logs = noise * random.standard_normal(length)
    if scenario == "spikes":
        sizes = random.uniform(SPIKE_LEAST, SPIKE_MOST, length)
        logs += np.where(random.random(length) < SPIKE_SHARE, np.log1p(sizes), 0)
    elif scenario == "bimodal":
        changes = random.random(length) >= STAY
        slow = (random.integers(2) + np.cumsum(changes)) % 2
        logs += slow * np.log1p(CLOCK)
    elif scenario == "drift":
        logs += random.choice((-1, 1)) * np.log1p(DRIFT) * np.arange(length)
    truth = None
    if step:
        truth = int(random.integers(BEFORE, length - AFTER + 1))
        logs[truth:] += np.log1p(step)
    return Trial(name, 100 * np.exp(logs), truth, scenario, noise, step)
