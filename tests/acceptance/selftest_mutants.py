"""Mutation test of the instrument: each check off in a copy must show in the self-test, alone.

    python tests/acceptance/selftest_mutants.py [WORD ...]

For each mutant one check is disabled in a temporary copy of the package, and the whole self-test
runs with that copy. The trials that then report a lie must be exactly those that depend on the
check. One mutant a core at a time, each about two minutes; the trials hold on a busy machine too.
Exit code 1 when a mutant survives, or when another trial turns red.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.paths import root
from harness.selftest.trials import TRIALS

# Runs in the copy; prints which trials report a lie, and why.
_DRIVER = """
import json, sys
from pathlib import Path
import harness
from harness.hardware.ceilings import Ceilings
from harness.hardware.detection import detect
from harness.selftest.run import selftest
from harness.selftest.trials import TRIALS

assert Path(harness.__file__).is_relative_to(Path(sys.argv[1]).resolve()), harness.__file__
wanted = sys.argv[3:]
limits = lambda device, threads, dtypes: Ceilings(
    bandwidth_bytes_per_s=1e10, flops_per_s=dict.fromkeys(dtypes, 1e11), source="made up"
)
trials = [trial for trial in TRIALS if not wanted or trial.name in wanted]
say = lambda line: print(line, file=sys.stderr, flush=True)
verdicts = selftest(trials, detect("cpu"), say, lock=Path(sys.argv[2]), limits=limits)
print(json.dumps({v.trial.name: list(v.faults) for v in verdicts if not v.true}))
"""


@dataclass(frozen=True)
class Edit:
    """One text replaced by another, wherever it stands in a file; it must stand there."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A check disabled, and the trials that depend on it."""

    check: str
    edits: tuple[Edit, ...]
    red: frozenset[str]


def mutant(check: str, red: Iterable[str], *edits: tuple[str, str, str]) -> Mutant:
    """A mutant from tuples."""
    return Mutant(check, tuple(Edit(*edit) for edit in edits), frozenset(red))


_GATES, _MEASURE, _SWEEP = "harness/gates", "harness/measure", "harness/sweep"
_LATENCY, _EXECUTE = f"{_MEASURE}/latency.py", "harness/worker/execute.py"

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "tokens are counted",
        ["early_end"],
        (
            f"{_GATES}/counts.py",
            '    worst, detail, foreign = 0, "", None\n',
            '    return verdict("tokens", 0, 0, "tokens")\n',
        ),
    ),
    mutant(
        "a request without a token is no request",
        ["no_tokens"],
        (
            _LATENCY,
            'raise MeasurementError(f"request {submission.request} emitted no token")',
            "continue",
        ),
    ),
    mutant(
        "an empty emission is no first token",
        ["empty_first", "no_tokens"],
        (f"{_MEASURE}/generate.py", "            if emission.token_ids:", "            if True:"),
    ),
    mutant(
        "tokens are held to the reference's choice",
        ["wrong_output", "cached_output"],
        (
            f"{_GATES}/regret.py",
            'verdict(name, seen.max().item(), bound, "logit", detail)',
            'verdict(name, 0.0, bound, "logit", detail)',
        ),
    ),
    mutant(
        "what was timed is judged",
        ["cached_output"],
        (
            f"{_GATES}/judgement.py",
            "if not counts.passed or not settings.exactness:",
            "if True:",
        ),
    ),
    mutant(
        "prompts are fresh",
        ["cached_output"],
        (
            f"{_MEASURE}/prompts.py",
            'assert len(self._seen) == before + size, "a prompt was made twice"',
            "pass",
        ),
        (f"{_MEASURE}/prompts.py", "self._made += size", "pass"),
        (f"{_MEASURE}/prompts.py", "self._made += skipped", "pass"),
    ),
    mutant(
        "logits are held to the reference's",
        ["wrong_logits", "nan_output", "unwritten_output"],
        (f"{_GATES}/tolerance.py", "verdict(names[0], seen.max,", "verdict(names[0], 0.0,"),
        (f"{_GATES}/tolerance.py", "verdict(names[1], seen.rms,", "verdict(names[1], 0.0,"),
    ),
    mutant(
        "NaN never passes",
        ["nan_output", "unwritten_output"],
        (
            f"{_GATES}/verdict.py",
            "math.isfinite(bound) and observed <= bound",
            "math.isfinite(bound) and not observed > bound",
        ),
    ),
    mutant(
        "unwritten memory is poisoned",
        ["unwritten_output"],
        (f"{_GATES}/poison.py", "    with _Poison():\n        yield\n", "    yield\n"),
    ),
    mutant(
        "a reference of NaN passes nothing",
        ["nan_reference"],
        (
            f"{_GATES}/verdict.py",
            "math.isfinite(bound) and observed <= bound",
            "(bound != bound or observed <= bound)",
        ),
        *(
            (
                f"{_GATES}/{file}.py",
                "if not bool(torch.isfinite(exact).all() & torch.isfinite(trusted).all()):",
                "if False:",
            )
            for file in ("tolerance", "regret")
        ),
    ),
    mutant(
        "the gates try their own teeth",
        ["flat_output"],
        (f"{_GATES}/tolerance.py", "            len(blind),\n", "            0,\n"),
        (f"{_GATES}/regret.py", "float(control <= bound)", "0.0"),
    ),
    mutant(
        # Two checks see one more thread: the setting, and the CPU time where it had work to do.
        "PyTorch's settings and the CPU time stay what the row says",
        ["more_threads"],
        (f"{_GATES}/ambient.py", "verdict(name, len(changed), 0,", "verdict(name, 0, 0,"),
        (f"{_GATES}/ambient.py", "cpu_seconds / wall_seconds if wall_seconds > 0 else", ""),
    ),
    mutant(
        "nothing is faster than physics",
        ["beats_physics"],
        (f"{_GATES}/plausibility.py", "floor_seconds * 1e9 / measured_ns,", "0.0,"),
    ),
    mutant(
        "state is held to the formula",
        ["wrong_state"],
        (f"{_GATES}/state.py", "abs(measured - expected)", "0"),
    ),
    mutant(
        "the clock only goes forwards",
        ["backward_clock", "standing_clock"],
        (
            f"{_MEASURE}/clock.py",
            "if self._last is not None and now < self._last:",
            "if False:",
        ),
        (f"{_MEASURE}/generate.py", "if end <= start:", "if False:"),
    ),
    mutant(
        "the timer is taken before a technique can replace it",
        ["patched_timer"],
        (
            f"{_MEASURE}/clock.py",
            "read = _TIMER if target is None else load(target)",
            "read = (lambda: time.perf_counter_ns()) if target is None else load(target)",
        ),
    ),
    mutant(
        "tokens are known when the clock is read",
        ["lazy"],
        (f"{_MEASURE}/generate.py", "    if not plain or any(", "    if False and any("),
    ),
    mutant(
        "tokens that were held back have no times of their own",
        ["burst"],
        (_LATENCY, "    if most <= 1 + lookahead:\n", "    if True:\n"),
    ),
    mutant(
        "time per token leaves the first emission's tokens out",
        ["several_tokens"],
        (
            _LATENCY,
            "return (self.e2e_ns - self.ttft_ns) / (self.tokens - self.first_tokens)",
            "return (self.e2e_ns - self.ttft_ns) / (self.tokens - 1)",
        ),
    ),
    mutant(
        "time per token leaves the first token's time out",
        ["sleeping", "several_tokens", "empty_first", "patched_timer"],
        (
            _LATENCY,
            "return (self.e2e_ns - self.ttft_ns) / (self.tokens - self.first_tokens)",
            "return self.e2e_ns / (self.tokens - self.first_tokens)",
        ),
    ),
    mutant(
        "the first token's time is no gap",
        ["sleeping", "several_tokens", "empty_first", "patched_timer", "one_token"],
        (
            _LATENCY,
            "        gaps=tuple(\n",
            "        gaps=((submitted_ns, first.stamp_ns, len(first.token_ids)),) + tuple(\n",
        ),
    ),
    mutant(
        "a gap is divided by its tokens",
        ["several_tokens"],
        (_LATENCY, "values = [((b - a) / tokens, float(w))", "values = [(float(b - a), float(w))"),
    ),
    mutant(
        "one token has no time per token",
        ["one_token"],
        (
            _LATENCY,
            "        if self.tokens == self.first_tokens:\n            return None\n",
            "        if self.tokens == self.first_tokens:\n            return 0.0\n",
        ),
    ),
    mutant(
        "a run that is not good carries no metric",
        ["early_end", "cached_output", "beats_physics"],
        ("harness/worker/notes.py", 'good = status == "ok"', "good = True"),
    ),
    mutant(
        "lack of memory is told from other errors",
        ["out_of_memory", "larger_case"],
        (
            _EXECUTE,
            "if isinstance(error, RuntimeError) and any(s in str(error) for s in _OUT_OF_MEMORY):",
            "if False:",
        ),
    ),
    mutant(
        "larger cases are skipped after lack of memory",
        ["larger_case"],
        (
            f"{_SWEEP}/prune.py",
            "    for smaller in exhausted:\n",
            "    for smaller in list(exhausted)[:0]:\n",
        ),
    ),
    mutant(
        "a run has a timeout",
        ["hangs"],
        (f"{_SWEEP}/executor.py", "start + job.measure.timeout_seconds", "start + 600"),
    ),
    mutant(
        "an engine that gets nowhere is stopped",
        ["silent"],
        (f"{_MEASURE}/generate.py", "if silent > patience:", "if False:"),
    ),
    mutant(
        "a signal means crashed",
        ["segfault"],
        (
            f"{_SWEEP}/ending.py",
            'return "crashed", f"the worker was ended by {name}"',
            'return "error", f"the worker was ended by {name}"',
        ),
    ),
    mutant(
        "an exception is an error",
        ["raises"],
        (
            _EXECUTE,
            '        traceback.print_exc()\n        return "error", _sentence(error)\n',
            '        return "ok", None\n',
        ),
    ),
    mutant(
        "an exit code of 0 is no answer",
        ["quits"],
        (f"{_SWEEP}/ending.py", "left no result", "was content"),
    ),
)


def missing(mutated: Mutant, folder: Path) -> list[str]:
    """Edits whose text does not stand in its file any more."""
    return [
        f"{edit.file} no longer has: {edit.old.strip()}"
        for edit in mutated.edits
        if edit.old not in (folder / edit.file).read_text()
    ]


def copied(folder: Path) -> Path:
    """A copy of the package in `folder`, without the trained models, which no trial needs."""
    for name in ("harness", "techniques", "kernels"):
        shutil.copytree(
            root() / name,
            folder / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "models", "corpus"),
        )
    return folder


def lies(folder: Path, trials: Sequence[str] = ()) -> dict[str, list[str]]:
    """The trials that report a lie when the package in `folder` tests itself."""
    command = [sys.executable, "-P", "-c", _DRIVER, str(folder), str(folder / "lock"), *trials]
    # Byte code is kept: a copy of the package would be compiled again for every worker.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command,
        env={**environment, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the self-test of the copy failed:\n{done.stderr}")
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def attempt(mutated: Mutant | None, trials: Sequence[str] = ()) -> dict[str, list[str]]:
    """The lies of a fresh copy with this mutant in it, or with none."""
    with TemporaryDirectory(prefix="selftest-mutant-") as name:
        folder = copied(Path(name))
        if mutated is not None and (gone := missing(mutated, folder)):
            raise RuntimeError("; ".join(gone))
        for edit in mutated.edits if mutated else ():
            file = folder / edit.file
            file.write_text(file.read_text().replace(edit.old, edit.new))
        return lies(folder, trials)


def main(wanted: Sequence[str]) -> int:
    """Try the mutants whose check contains one of the words; all without any."""
    chosen = [m for m in MUTANTS if not wanted or any(word in m.check for word in wanted)]
    faults = [f"{m.check}: {fault}" for m in chosen for fault in missing(m, root())]
    if not faults and (found := attempt(None)):
        faults.append(f"without a mutant the self-test reports {found}")
    untried = {trial.name for trial in TRIALS} - {"honest"} - {n for m in MUTANTS for n in m.red}
    faults += [f"no mutant turns {name} red" for name in sorted(untried)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tried = pool.map(attempt, chosen if not faults else ())
        for mutated, found in zip(chosen, tried, strict=False):
            verdict = "good" if set(found) == mutated.red else "FAULT"
            red = ", ".join(sorted(found)) or "nothing"
            print(f"{verdict}: {mutated.check}: {red}", flush=True)
            if verdict != "good":
                faults.append(f"{mutated.check}: red were {found}, should be {sorted(mutated.red)}")
    for fault in faults:
        print(f"FAULT: {fault}")
    print(f"{len(chosen)} mutants, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
