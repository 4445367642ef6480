"""Second model of a series: a level on which a machine switches between two states, and one step.

Clocks settle on one of two frequencies, a page cache is warm or not: the series is then two bands,
and each visit to the other band looks like a step. This is a hidden Markov model of the bands with
outliers, the level integrated over a grid; how far the bands lie apart and how strong the noise is
are not known, and every combination of a small grid is a model (forward and backward algorithm,
Rabiner 1989). A step moves both bands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.analysis.detect.correlated import candidates
from harness.analysis.detect.noise import Floats
from harness.analysis.detect.settings import Settings

Singles = NDArray[np.float32]

# Levels of the grid, and the distance between two in units of the noise where the range allows it.
LEVELS, CELL = 48, 0.45
# Noise against its estimate from differences, and weights.
NOISE = np.array([0.8, 1.2], dtype=np.float32)
NOISE_WEIGHT = np.array([0.5, 0.5])
# Distance of the bands in cells (2.3, 3.6, 5 and 7 standard deviations), and weights; 0: one band.
BANDS = ((0, 0.6), (5, 0.1), (8, 0.1), (11, 0.1), (16, 0.1))
# A state holds for 1 / (1 - STAY) nights.
STAY = 0.85
# Share of outliers, and how much wider they are.
OUTLIERS, WIDER = 0.02, 10.0
# Series worked on at once, for memory.
CHUNK = 128


def step_probability(
    x: Floats, sd: Floats, inner: Floats, settings: Settings
) -> tuple[Floats, Floats]:
    """Probability of a step for the worse, and for the better, at each night of the window.

    Args:
        x: logarithms, up is worse, [B, T].
        sd: their noise from differences, [B].
        inner: the same clipped; it spans the grid of levels, [B, T].

    Returns:
        Two arrays [B, T], as `correlated.step_probability`.
    """
    parts = [
        _chunk(x[i : i + CHUNK], sd[i : i + CHUNK], inner[i : i + CHUNK], settings)
        for i in range(0, len(x), CHUNK)
    ]
    worse, better = np.zeros((2, *x.shape))
    at = candidates(x.shape[1], settings)
    if parts and at:
        worse[:, at.start : at.stop] = np.concatenate([w for w, _ in parts])
        better[:, at.start : at.stop] = np.concatenate([b for _, b in parts])
    return worse, better


def _chunk(x: Floats, sd: Floats, inner: Floats, settings: Settings) -> tuple[Floats, Floats]:
    """The probabilities at the candidates, [B, C] each."""
    batch, nights = x.shape
    at = candidates(nights, settings)
    if not at:
        return np.zeros((batch, 0)), np.zeros((batch, 0))
    low, high = inner.min(axis=1) - sd, inner.max(axis=1) + sd
    cell = np.maximum(CELL * sd, (high - low) / (LEVELS - 1))
    lowest = (low + high) / 2 - cell * (LEVELS - 1) / 2
    seen = _emissions(x, sd, lowest, cell)  # [T, S, levels + widest band, B]
    # A step is at least this many cells.
    least = np.clip(np.rint(settings.effect / 2 / cell), 1, LEVELS).astype(int)  # [B]
    none, worse, better = [], [], []
    for band, weight in BANDS:
        found = _one_band(seen, band, at, least)
        prior = np.log(NOISE_WEIGHT * weight)[:, None] - nights * np.log(NOISE)[:, None]  # [S, B]
        none.append(found[0] + prior)
        worse.append(found[1] + prior)
        better.append(found[2] + prior)
    hazard = np.log(settings.hazard)
    no_step = np.logaddexp.reduce(np.concatenate(none))  # [B]
    up = np.logaddexp.reduce(np.concatenate(worse, axis=1), axis=1) + hazard  # [C, B]
    down = np.logaddexp.reduce(np.concatenate(better, axis=1), axis=1) + hazard
    total = np.logaddexp.reduce(np.concatenate([no_step[None], up, down]))
    return np.exp(up - total).T, np.exp(down - total).T


def _emissions(x: Floats, sd: Floats, lowest: Floats, cell: Floats) -> Singles:
    """How likely each night is at each level, up to a constant, [T, S, levels + widest, B]."""
    widest = max(band for band, _ in BANDS)
    levels = (lowest + cell * np.arange(LEVELS + widest)[:, None]).astype(np.float32)
    noise = NOISE[:, None] * sd.astype(np.float32)  # [S, B]
    z = (x.T.astype(np.float32)[:, None, None, :] - levels) / noise[:, None, :]
    z *= z
    near = np.exp(-z / 2)
    far = np.exp(-z / (2 * WIDER**2)) / WIDER
    # The last term: anything can happen once. It also keeps a sum from being zero.
    likely: Singles = (1 - OUTLIERS) * near + OUTLIERS * far + np.float32(1e-7)
    return likely


def _one_band(
    seen: Singles, band: int, at: range, least: NDArray[np.intp]
) -> tuple[Floats, Floats, Floats]:
    """Log likelihoods for one distance of the bands: no step [S, B], worse, better [C, S, B]."""
    nights, sizes, _, batch = seen.shape
    modes = 1 if band == 0 else 2
    shifts = (0, band)[:modes]
    shape = (sizes, modes, LEVELS, batch)

    def likely(t: int) -> Singles:
        return np.stack([seen[t, :, shift : shift + LEVELS] for shift in shifts], axis=1)

    def switch(state: Singles) -> Singles:
        return state if modes == 1 else STAY * state + (1 - STAY) * state[:, ::-1]

    state = np.full(shape, 1 / (modes * LEVELS), dtype=np.float32)
    log = np.zeros((sizes, batch))
    before: dict[int, tuple[Singles, Floats]] = {}
    for t in range(nights):
        state = likely(t) * (switch(state) if t else state)
        log = log + _rescale(state)
        if t + 1 in at:
            before[t + 1] = state, log
    none = np.log(state.sum(axis=(1, 2))) + log
    up, down = np.full((2, len(at), sizes, batch), -np.inf)
    state = np.ones(shape, dtype=np.float32)
    log = np.zeros((sizes, batch))
    higher = np.minimum(np.arange(LEVELS)[:, None] + least, LEVELS)[None, None]
    lower = np.maximum(np.arange(LEVELS)[:, None] - least + 1, 0)[None, None]
    for t in range(nights - 1, at.start - 1, -1):
        state = likely(t) * state
        log = log + _rescale(state)
        state = switch(state)
        if t in at:
            left, log_left = before[t]
            sums = np.zeros((sizes, modes, LEVELS + 1, batch), dtype=np.float32)
            np.cumsum(state, axis=2, out=sums[:, :, 1:])  # sums[g]: levels below g
            above = sums[:, :, -1:] - np.take_along_axis(sums, higher, axis=2)
            below = np.take_along_axis(sums, lower, axis=2)
            for result, reached in ((up, above), (down, below)):
                weight = (left * reached).sum(axis=(1, 2)) / LEVELS
                result[t - at.start] = np.log(np.maximum(weight, 1e-37)) + log + log_left
    return none, up, down


def _rescale(state: Singles) -> Floats:
    """Divide by the largest entry in place; its logarithm, [S, B]."""
    largest = state.max(axis=(1, 2))
    state /= largest[:, None, None]
    return np.asarray(np.log(largest.astype(np.float64)))
