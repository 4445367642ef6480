"""Which stored sweeps a name means: numbers, databases, revisions, and what is none of them."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.analysis.sides import find
from harness.errors import UsageError
from harness.hardware.identity import RevisionRow
from harness.store import open_store

A, B, C = ("a" * 40, "b" * 40, "c" * 40)
KNOWN = {"main": A, "head": B, A: A, B: B}


def _resolve(name: str) -> str | None:
    return KNOWN.get(name)


@pytest.fixture
def make_db(tmp_path: Path, example_sweep: ModuleType) -> Any:
    """make_db(name, sweeps): each a mapping of uid, commit, dirty, argv, suite, minute, runs."""

    def make(name: str, *sweeps: dict[str, Any]) -> str:
        url = str(tmp_path / name)
        of = example_sweep.case("gqa")
        with open_store(url) as store:
            for at, wanted in enumerate(sweeps):
                dirty = wanted.get("dirty", False)
                start = example_sweep.start().model_copy(
                    update={
                        "uid": wanted.get("uid", f"{name}{at}"),
                        "started_at": example_sweep.STARTED.replace(minute=at),
                        "argv": tuple(wanted.get("argv", ("sweep", "decode"))),
                        "suite": wanted.get("suite", "decode"),
                        "suite_hash": wanted.get("suite", "decode") * 3,
                        "revision": RevisionRow(
                            repo="r",
                            commit=wanted.get("commit", A),
                            dirty=dirty,
                            diff_hash="d" if dirty else "",
                        ),
                    }
                )
                number = store.begin_sweep(start)
                if wanted.get("runs", True):
                    store.save_run(number, of, example_sweep.record(of, 0, metrics={"tpot": 1e6}))
        return url

    return make


def _ids(base_name: str, head_name: str, db: str, suite: str | None = None) -> tuple[int, int]:
    base, head = find(base_name, head_name, db, _resolve, suite)
    return base.sweep.id, head.sweep.id


def test_numbers_and_the_last_sweep(make_db: Any) -> None:
    db = make_db("x.db", {}, {}, {})
    assert _ids("1", "2", db) == (1, 2)
    assert _ids("1", "last", db) == (1, 3)
    base, _ = find("1", "2", db, _resolve)
    assert [run.case.label for run in base.runs] == ["gqa"]
    with pytest.raises(UsageError, match=r"there is no sweep 9 in .*; the last are: 1, 2, 3"):
        find("9", "1", db, _resolve)


def test_revisions_take_their_newest_clean_sweeps(make_db: Any) -> None:
    db = make_db("x.db", {}, {"commit": B}, {}, {"commit": B, "dirty": True}, {"commit": C})
    assert _ids("main", "head", db) == (3, 2)


def test_one_session_goes_before_newer_sweeps_and_keeps_its_sides(make_db: Any) -> None:
    """A/A of one commit: which sweep is the base is written in it."""
    mark = ("compare", "--run", "a", "b", "s", "--session", "5e55", "--side")
    db = make_db("x.db", {"argv": (*mark, "head")}, {"argv": (*mark, "base")}, {}, {})
    assert _ids("main", "main", db) == (2, 1)


def test_sweeps_of_one_suite_meet(make_db: Any) -> None:
    db = make_db("x.db", {"suite": "decode"}, {"suite": "prefill"},
                 {"suite": "prefill", "commit": B}, {"suite": "decode", "commit": B})  # fmt: skip
    assert _ids("main", "head", db) == (1, 4)
    assert _ids("main", "head", db, suite="prefill") == (2, 3)


def test_two_databases_compare_their_newest_sweeps(make_db: Any) -> None:
    old, new = make_db("old.db", {}, {}), make_db("new.db", {}, {"runs": False})
    base, head = find(old, new, None, _resolve)
    assert (base.sweep.uid, head.sweep.uid) == ("old.db1", "new.db0")


def test_a_commit_that_git_lost_is_found_by_its_name(make_db: Any) -> None:
    """A rebase or a shallow clone: the store knows what was measured, git does not any more."""
    db = make_db("x.db", {"commit": C}, {})
    assert _ids("cccccc", "main", db) == (1, 2)
    with pytest.raises(UsageError, match="no sweep of 'ccd'"):
        find("ccd", "main", db, _resolve)


REFUSED = (
    ("1", "1", "are the same sweep"),
    ("last", "2", "are the same sweep"),
    ("nowhere", "1", r"no sweep of 'nowhere', which is no revision of this checkout either"),
    ("head", "1", rf"no sweep of 'head' \({B[:12]}\) is stored; .*harness compare --run"),
    ("gone.db", "1", "gone.db"),
)


def test_what_is_not_there_is_one_sentence(make_db: Any) -> None:
    db = make_db("x.db", {}, {})
    for base, head, said in REFUSED:
        with pytest.raises(UsageError, match=said) as caught:
            find(base, head, db, _resolve)
        assert "\n" not in str(caught.value)


def test_an_empty_database_has_nothing_to_compare(make_db: Any) -> None:
    db, other = make_db("x.db"), make_db("y.db", {"runs": False})
    for base, said in (("1", "no sweep 1"), ("last", "holds no sweep yet"), (other, "no measured")):
        with pytest.raises(UsageError, match=said):
            find(base, "1", db, _resolve)
