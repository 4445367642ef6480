"""Whether two stored sweeps were one interleaved session: by their mark and by their places."""

from types import ModuleType

import pytest

from harness.analysis.interleaving import session
from harness.analysis.looks import FIRST
from harness.analysis.rows import Session
from harness.store.rows import StoredRun, SweepRow

MARKED = ("compare", "--run", "a", "b", "decode", "--session", "5e55")


def _row(example: ModuleType, uid: str, argv: tuple[str, ...]) -> SweepRow:
    row: SweepRow = example.row()
    return row.model_copy(update={"uid": uid, "argv": argv})


def _runs(example: ModuleType, slots: list[int]) -> list[StoredRun]:
    of = example.case("gqa")
    runs = [example.record(of, n, order_slot=slot) for n, slot in enumerate(slots)]
    stored: list[StoredRun] = example.stored(of, *runs)
    return stored


def _session(
    example: ModuleType,
    base: list[int],
    head: list[int],
    argv: tuple[tuple[str, ...], tuple[str, ...]] = (MARKED, MARKED),
) -> Session:
    return session(
        _row(example, "1", argv[0]),
        _row(example, "2", argv[1]),
        _runs(example, base),
        _runs(example, head),
    )


def test_one_job_whose_pairs_stood_side_by_side(example_sweep: ModuleType) -> None:
    found = _session(example_sweep, [0, 3, 4, 7], [1, 2, 5, 6])
    assert (found.interleaved, found.first) == (True, FIRST)


def test_a_fixed_number_of_rounds_is_looked_at_once(example_sweep: ModuleType) -> None:
    fixed = (*MARKED, "--rounds", "4")
    found = _session(example_sweep, [0, 3], [1, 2], (fixed, fixed))
    assert (found.interleaved, found.first) == (True, None)


@pytest.mark.parametrize(
    ("base", "head"),
    [([0, 1, 2, 3], [4, 5, 6, 7]), ([0, 2, 4, 6], [1, 3, 5, 7]), ([], [])],
    ids=["blocked", "base always first", "no common round"],
)
def test_blocked_runs_and_a_fixed_order_are_not_interleaved(
    base: list[int], head: list[int], example_sweep: ModuleType
) -> None:
    """paradigmxyz/reth#22321: a fixed order is a false change. Blocked runs flag 57 % under drift,
    a fixed order 54 % where the first of each pair is 1 % slower."""
    assert _session(example_sweep, base, head).interleaved is False


def test_two_ordinary_sweeps_and_two_sessions_are_not_interleaved(
    example_sweep: ModuleType,
) -> None:
    plain = ("sweep", "suites/decode.yaml")
    other = (*MARKED[:-1], "0ther")
    for argv in ((plain, plain), (MARKED, plain), (MARKED, other)):
        assert _session(example_sweep, [0, 3], [1, 2], argv).interleaved is False
