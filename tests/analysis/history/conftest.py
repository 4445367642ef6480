"""Made-up histories: nights of a device, and series over them with known changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from harness.analysis.history.series import History, Key, Series
from harness.metrics import METRICS
from harness.store.nights import NightRow
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint

FIRST_NIGHT = datetime(2026, 1, 1, 22, tzinfo=UTC)
MakeHistory = Callable[..., History]


def night(place: int, **fields: Any) -> NightRow:
    """Night number `place`, each of a commit of its own."""
    row = NightRow(
        sweep_id=place + 1,
        started_at=FIRST_NIGHT + timedelta(days=place),
        status="complete",
        suite="decode",
        suite_hash="s1",
        hardware_id=1,
        environment_hash="e1",
        revision_id=place + 1,
        commit=f"{place:04d}" + "c" * 36,
        branch="main",
        committed_at=FIRST_NIGHT + timedelta(days=place, hours=-2),
        dirty=False,
    )
    return replace(row, **fields)


def stack_case(number: int, technique: str = "mha", cache: str = "contiguous") -> Case:
    """A case whose title is unlike those of all other numbers."""
    return Case(
        stack=StackSpec(
            label=technique if cache == "contiguous" else f"{technique}+{cache}",
            architecture=(Choice(technique=technique),),
            weights=Choice(technique="dense"),
            cache=Choice(technique=cache),
            decoding=Choice(technique="autoregressive"),
            scheduling=Choice(technique="static"),
        ),
        model="tiny",
        checkpoint_hash=None,
        workload=GeneratePoint(batch=number, prompt_tokens=16, new_tokens=8),
    )


@pytest.fixture
def make_history() -> MakeHistory:
    """make_history({case number: values}, metric="tpot", nights={5: {...}}) -> History.

    A value of None, or NaN, is a night in which the case was ok and had no number.
    """

    def make(
        values: Mapping[int, Sequence[float | None]],
        metric: str = "tpot",
        nights: Mapping[int, Mapping[str, Any]] | None = None,
        caches: Mapping[int, str] | None = None,
        endings: Mapping[int, Mapping[int, tuple[str, str | None]]] | None = None,
        source: str = "measured",
    ) -> History:
        length = max(len(v) for v in values.values())
        rows = [night(p, **(nights or {}).get(p, {})) for p in range(length)]
        series = []
        ended: dict[tuple[int, int, str], dict[int, tuple[str, str | None]]] = {}
        for number, own in values.items():
            seen = [(p, float(v)) for p, v in enumerate(own) if v is not None]
            ended[number, 1, source] = dict.fromkeys((p for p, _ in seen), ("ok", None)) | dict(
                (endings or {}).get(number, {})
            )
            series.append(
                Series(
                    Key(number, 1, source, metric),
                    METRICS[metric],
                    np.array([p for p, _ in seen], dtype=np.intp),
                    np.array([v for _, v in seen]),
                    np.full(len(seen), np.nan),
                )
            )
        cases = {n: stack_case(n, cache=(caches or {}).get(n, "contiguous")) for n in values}
        return History(tuple(rows), tuple(series), cases, {1: "GPU"}, ended, {})

    return make


@pytest.fixture
def random() -> np.random.Generator:
    """Seeded noise."""
    return np.random.default_rng(11)
