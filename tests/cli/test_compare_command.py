"""`harness compare` on stored sweeps: what it prints, its exit codes, refusals in a sentence."""

import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import build
from harness.errors import HarnessError, NothingMeasuredError, UsageError
from harness.hardware.identity import HardwareRow
from harness.store import open_store

SESSION = ("compare", "--run", "main", "head", "decode", "--rounds", "8", "--session", "5e55")


@pytest.fixture(scope="session")
def make_pair(tmp_path_factory: pytest.TempPathFactory, example_sweep: ModuleType) -> Any:
    """make_pair(change, apart=..., **fields of the head's start): a database of two sweeps."""
    made: dict[str, str] = {}

    def make(change: float = 0.0, apart: bool = False, **head: Any) -> str:
        key = f"{change}{apart}{head}"
        if key in made:
            return made[key]
        url = made[key] = str(tmp_path_factory.mktemp("pair") / "pair.db")
        source = random.Random(4)
        cases = [example_sweep.case("gqa", batch) for batch in (1, 2, 4, 8)]
        with open_store(url) as store:
            numbers = []
            for side in ("base", "head"):
                argv = ("sweep", "decode") if apart else (*SESSION, "--side", side)
                fields = {"uid": side, "argv": argv, **(head if side == "head" else {})}
                numbers.append(store.begin_sweep(example_sweep.start().model_copy(update=fields)))
            slot = 0
            for round_ in range(8):
                for of in cases:
                    for place in (0, 1) if round_ % 2 else (1, 0):
                        ns = 1e6 * (1 + change * place) * source.gauss(1, 0.003)
                        store.save_run(
                            numbers[place],
                            of,
                            example_sweep.record(of, round_, order_slot=slot, metrics={"tpot": ns}),
                        )
                        slot += 1
            for number in numbers:
                store.end_sweep(number, "complete")
        return url

    return make


def _invoke(*arguments: str) -> Any:
    return CliRunner().invoke(build(), ["compare", *arguments])


def test_an_interleaved_session_without_a_change_is_good(make_pair: Any) -> None:
    found = _invoke("1", "2", "--db", make_pair())
    assert found.exit_code == 0, found.output
    assert "main (4a3ceac9c182) against head (4a3ceac9c182)" in found.output
    assert "interleaved pairs of processes in one job" in " ".join(found.output.split())
    assert found.output.count(" same") >= 4
    assert "Rounds that this machine's noise needs" in found.output


def test_a_regression_is_exit_code_1_with_every_form_in_its_file(
    make_pair: Any, tmp_path: Path
) -> None:
    names = [tmp_path / f"out{ending}" for ending in (".txt", ".md", ".xml", ".json")]
    summary = tmp_path / "summary.md"
    options = [part for name in names for part in ("--output", str(name))]
    found = CliRunner().invoke(
        build(),
        ["compare", "1", "2", "--db", make_pair(0.05), "--github", *options],
        env={"GITHUB_STEP_SUMMARY": str(summary)},
    )
    assert found.exit_code == 1, found.output
    assert "4 rows to look at: 4 regressed." in found.output
    assert found.output.count("::error title=gqa B") == 4
    for name in names:
        assert "gqa B8 P128 N64" in name.read_text()
    assert "gqa B8 P128 N64" in summary.read_text()
    told = json.loads(names[-1].read_text())
    assert {row["verdict"] for row in told["rows"]} == {"regressed"}


def test_a_margin_above_the_change_makes_it_no_change(make_pair: Any) -> None:
    db = make_pair(0.05)
    for margin in ("10%", "0.1"):
        assert _invoke("1", "2", "--db", db, "--margin", margin).exit_code == 0


def test_sweeps_apart_are_nominated_and_good(make_pair: Any) -> None:
    found = _invoke("1", "2", "--db", make_pair(0.05, apart=True))
    assert found.exit_code == 0
    assert "unknown (nominated)" in found.output
    assert "4 unknown (4 nominated)" in found.output


def _refused(*arguments: str) -> HarnessError:
    error = _invoke(*arguments).exception
    assert isinstance(error, HarnessError), error
    assert "\n" not in str(error)
    return error


def test_other_hardware_is_refused_with_what_differs(make_pair: Any) -> None:
    """prisma/orm#29804: the parent ran on a fast runner, and its child was charged 2.04 times;
    ionelmc/pytest-benchmark#276: said in a sentence, not as a missing option."""
    fast = HardwareRow(
        kind="cpu", name="Fast 1", arch="x86_64", memory_bytes=5, count=2, cpu="Fast 1"
    )
    error = _refused("1", "2", "--db", make_pair(hardware=fast))
    assert isinstance(error, UsageError)
    assert "they ran on different hardware (name Example CPU 9000 @ 2.40GHz against Fast 1" in str(
        error
    )


def test_another_environment_is_refused_with_what_differs(
    make_pair: Any, example_sweep: ModuleType
) -> None:
    newer = example_sweep.start().environment.model_copy(
        update={"torch": "2.14.0+cpu", "variables": {"OMP_NUM_THREADS": "2"}}
    )
    error = _refused("1", "2", "--db", make_pair(environment=newer))
    assert "torch 2.13.0+cpu against 2.14.0+cpu; OMP_NUM_THREADS 1 against 2" in str(error)


def test_a_clock_reading_is_no_other_machine(make_pair: Any, example_sweep: ModuleType) -> None:
    """folo-rs/folo#429, ionelmc/pytest-benchmark#255: measured ceilings are no identity."""
    again = example_sweep.start().hardware.model_copy(update={"calibration": {"mhz": 2399.5}})
    assert _invoke("1", "2", "--db", make_pair(hardware=again)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("1", "2", "--margin", "x"), "--margin x: write a share below one, '1%' or '0.01'"),
        (("1", "2", "--margin", "200%"), "write a share below one"),
        (("1", "2", "--metric", "topt"), "unknown metric 'topt'; did you mean 'tpot'"),
        (("1", "2", "--metric", "intensity"), "neither better high nor low"),
        (("1", "2", "--output", "x.csv"), "does not say which form"),
        (("1", "2", "--rounds", "4"), "are of --run"),
        (("1", "2", "--budget", "4m"), "are of --run"),
        (("--run", "main", "head"), "--run needs a suite"),
        (("--run", "main", "head", "qiuck"), "unknown suite file 'qiuck'; did you mean 'quick'"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], said: str, make_pair: Any) -> None:
    error = _refused(*arguments, "--db", make_pair())
    assert said in str(error)
    assert error.exit_code == 2


def test_sweeps_without_a_common_case_are_nothing_measured(
    tmp_path: Path, example_sweep: ModuleType
) -> None:
    """edtechre/pybroker#287: exit code 3, neither good nor a regression."""
    url = str(tmp_path / "apart.db")
    with open_store(url) as store:
        for uid, batch in (("base", 1), ("head", 2)):
            number = store.begin_sweep(example_sweep.start().model_copy(update={"uid": uid}))
            of = example_sweep.case("gqa", batch)
            store.save_run(number, of, example_sweep.record(of, 0, metrics={"tpot": 1e6}))
    error = _refused("1", "2", "--db", url)
    assert isinstance(error, NothingMeasuredError)
    assert "share no case that both measured (gqa B2 P128 N64" in str(error)


def test_a_store_that_cannot_be_reached_is_infrastructure() -> None:
    error = _refused("1", "2", "--db", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    assert error.exit_code in (2, 4)  # 2 where the driver is not installed
