"""What `harness db gc` drops, and what it never does."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import delete

from harness.run import RunRecord, SampleSet
from harness.store import SweepStart, models, open_reader, open_store
from harness.store.retention import collect
from harness.suite.case import Case

MakeCase = Callable[..., Case]
MakeRun = Callable[..., RunRecord]
MakeSweep = Callable[..., SweepStart]


def _fill(url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep) -> None:
    # Incompressible enough that dropping them shows in the file's size.
    values = [pow(3, n, 2**61 - 1) for n in range(4000)]
    samples = [SampleSet(metric=name, unit="ns", values=values) for name in ("tpot", "ttft")]
    with open_store(url) as store:
        for day in (3, 1, 2):
            sweep_id = store.begin_sweep(make_sweep(uid=str(day) * 32, day=day))
            case = make_case(batch=day)
            store.save_run(sweep_id, case, make_run(case, samples=samples))


def test_samples_of_old_sweeps_go_and_metrics_stay(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    _fill(url, make_case, make_run, make_sweep)
    with open_store(url) as store:
        dry = collect(store, keep=1, dry_run=True)
        with open_reader(url) as reader:
            before = reader.info().counts
        done = collect(store, keep=1)
        again = collect(store, keep=1)
    assert before["samples"] == 6
    assert (dry.sweeps, dry.samples, dry.orphans) == (2, 4, 0)
    assert dry.sample_bytes > 4 * 4000
    assert (done.sweeps, done.samples, done.sample_bytes) == (2, 4, dry.sample_bytes)
    assert (again.sweeps, again.samples, again.sample_bytes) == (0, 0, 0)
    if done.bytes_before is not None and done.bytes_after is not None:
        assert dry.bytes_before == dry.bytes_after
        assert done.bytes_after < done.bytes_before - 4 * 4000
    with open_reader(url) as reader:
        runs = [reader.runs(sweep.id)[0] for sweep in reader.sweeps()]
        after = reader.info().counts
    # The newest by time, not by id.
    assert [len(run.record.samples) for run in runs] == [0, 0, 2]
    assert all(run.record.metrics and run.record.gates for run in runs)
    assert after == {**before, "samples": 2}


def test_orphans_go(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    _fill(url, make_case, make_run, make_sweep)
    with open_store(url) as store:
        with store.engine.begin() as connection:
            for model in (models.Metric, models.Samples, models.Gate, models.Run, models.Sweep):
                connection.execute(delete(model))
        done = collect(store, keep=1)
    # Three cases, one device, one environment, one revision.
    assert done.orphans == 6
    with open_reader(url) as reader:
        assert set(reader.info().counts.values()) == {0}


def test_keeping_none_drops_all_samples(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    _fill(url, make_case, make_run, make_sweep)
    with open_store(url) as store:
        assert collect(store, keep=0).samples == 6
