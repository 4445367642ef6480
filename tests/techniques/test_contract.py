"""What every technique owes, tried on each name that the registry knows.

Adding a technique adds its tests: nothing here names one. A technique is tried with its default
options, with every flag and every literal choice turned, and with the `examples` of its fields.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import subprocess
import sys
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from harness import registry
from harness import stack as stacks
from harness.cost import Cost
from harness.engine.build import assemble
from harness.engine.request import Emission, Request, Sampling
from harness.engine.request import Sequence as Running
from harness.engine.sampling import uniform
from harness.engine.scheduler import Run, Scheduler, View
from harness.errors import UnfitError
from harness.gates import reference
from harness.gates.regret import check_regret
from harness.gates.tolerance import Errors, check_numeric
from harness.model import weights
from harness.model.source import ModelSource, find
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape, ModelShape
from harness.suite.case import StackSpec
from harness.technique import BASELINES, Exactness, Factory, Slot, Technique, load

if TYPE_CHECKING:
    from tests.techniques.conftest import Twins

NAMES = registry.names()
SOURCES = [
    find("tiny", []),
    # As wide as the trained models, for what needs whole groups of 128.
    ModelSource(
        "wide",
        "random",
        ModelShape(vocab=101, width=256, layers=2, heads=8, kv_heads=8, head_dim=32, ff=768),
    ),
]
SEED = 2
_RANDOM = random.Random(8)
PROMPTS = [tuple(_RANDOM.randrange(101) for _ in range(n)) for n in (9, 1, 14, 5)]
NEWS = (6, 9, 4, 8)


@dataclass(frozen=True)
class Trial:
    """A technique with options, in the plainest stack that takes it."""

    technique: Technique[Any]
    options: Any
    stack: StackSpec
    plan: EnginePlan
    source: ModelSource


def _all(slot: Slot | None = None) -> list[Any]:
    """Trials of every technique (of one slot) for parametrize, made on use."""
    return [
        pytest.param(name, chosen, id=f"{name}-{json.dumps(chosen)}" if chosen else name)
        for name in NAMES
        if slot is None or registry.get(name).slot is slot
        for chosen in _options(registry.get(name))
    ]


def _options(technique: Technique[Any]) -> Iterator[dict[str, Any]]:
    """No options; then each flag turned, each literal choice, and each example, one at a time."""
    yield {}
    for key, info in technique.options.model_fields.items():
        tried: list[Any] = list(info.examples or [])
        # A flag with an empty list of examples is refused, with its reason, by `apply`.
        if info.annotation is bool and info.examples is None:
            tried.append(not info.default)
        elif typing.get_origin(info.annotation) is typing.Literal:
            tried += typing.get_args(info.annotation)
        for value in tried:
            if value != info.default:
                yield {key: value}


def _trial(name: str, chosen: dict[str, Any]) -> Trial:
    """The first of the test's models and caches that takes the technique.

    Raises UnfitError where none does.
    """
    technique = registry.get(name)
    options = technique.options(**chosen)
    caches = [{}] if technique.slot is Slot.CACHE else [{}, {"cache": "recompute"}]
    refused = UnfitError("nothing was tried")
    for source, others in itertools.product(SOURCES, caches):
        named = stacks.parse({technique.slot.value: {name: chosen}, **others})
        stack = stacks.completed(named, source)
        try:
            plan = stacks.resolve(
                stack, source, dtype="float32", backend="torch", slots=3, max_tokens=24
            )
        except UnfitError as error:
            refused = error
            continue
        return Trial(technique, options, stack, plan, source)
    raise refused


@pytest.fixture(scope="module")
def heavy_imports() -> dict[str, list[str]]:
    """What importing each technique's package brings in that a listing must not wait for."""
    program = (
        "import json, sys\n"
        "from importlib import import_module\n"
        "found = {}\n"
        "for name in json.loads(sys.argv[1]):\n"
        "    before = set(sys.modules)\n"
        "    import_module(f'harness.techniques.{name}')\n"
        "    new = {m.partition('.')[0] for m in set(sys.modules) - before}\n"
        "    found[name] = sorted(new & {'torch', 'triton', 'numpy', 'transformers', 'pandas'})\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, json.dumps(NAMES)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_baselines_are_there() -> None:
    for slot, name in BASELINES.items():
        assert registry.get(name).slot is slot


@pytest.mark.parametrize("name", NAMES)
def test_the_folder_is_the_name(name: str) -> None:
    technique = registry.get(name)
    assert technique.name == name
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)


@pytest.mark.parametrize("name", NAMES)
def test_its_package_imports_nothing_heavy(name: str, heavy_imports: dict[str, list[str]]) -> None:
    assert heavy_imports[name] == []


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name: str) -> None:
    technique = registry.get(name)
    assert technique.title
    assert len(technique.about) > 20
    assert technique.about.endswith(".")
    assert re.fullmatch(r"\d+(\.\d+)*(, \d+(\.\d+)*)*", technique.lecture)
    assert all(technique.papers)
    other = technique.compared_with
    if other is not None:
        assert other != name
        assert registry.get(other).slot is technique.slot


@pytest.mark.parametrize("name", NAMES)
def test_its_options_have_defaults_and_texts(name: str) -> None:
    options = registry.get(name).options
    for key, info in options.model_fields.items():
        assert not info.is_required(), key
        assert info.description, f"{key} has no description"
    assert options.__doc__
    assert options().non_default() == {}
    assert options(**json.loads(options().model_dump_json())) == options()


@pytest.mark.parametrize(("name", "chosen"), _all())
def test_it_promises_an_exactness(name: str, chosen: dict[str, Any]) -> None:
    technique = registry.get(name)
    assert isinstance(technique.exactness(technique.options(**chosen)), Exactness)


@pytest.mark.parametrize(("name", "chosen"), _all())
def test_every_name_it_gives_resolves(name: str, chosen: dict[str, Any]) -> None:
    trial = _trial(name, chosen)
    assert callable(load(trial.technique.reference))
    plan = trial.plan
    for factory in (plan.linear, *plan.transforms, plan.cache, plan.decoder, plan.scheduler):
        assert isinstance(factory, Factory)
        assert callable(factory.load())
    assert all(callable(load(mixer)) for mixer in plan.shape.mixers)
    assert trial.technique.own_layers == bool(plan.shape.mixers)
    assert plan.traits <= set(Trait)


@pytest.mark.parametrize(("name", "chosen"), _all())
@pytest.mark.parametrize("batch", [BatchShape(1, 1, 0), BatchShape(2, 9, 0), BatchShape(8, 1, 99)])
def test_its_cost_is_finite_and_not_negative(
    name: str, chosen: dict[str, Any], batch: BatchShape
) -> None:
    trial = _trial(name, chosen)
    cost = Cost()
    for technique, options in stacks.techniques(trial.stack):
        cost = technique.cost(cost, trial.plan, options, batch)
    numbers = [getattr(cost, field.name) for field in fields(Cost) if field.name != "products"]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    assert cost.flops > 0
    assert cost.weight_bytes > 0


@pytest.mark.parametrize(("name", "chosen"), _all())
def test_its_engine_agrees_with_the_references(name: str, chosen: dict[str, Any]) -> None:
    """Logits within the numeric gate, and tokens within the regret gate, of ragged requests.

    A lossy cache, decoder or scheduler is held to its own reference below, not to this one.
    """
    trial = _trial(name, chosen)
    if reference.promised(trial.stack, [Slot.CACHE, Slot.DECODING, Slot.SCHEDULING]) is (
        Exactness.LOSSY
    ):
        return
    seen, tokens = _generate(trial, [Request(i, p, NEWS[i]) for i, p in enumerate(PROMPTS)])
    assert [len(tokens[i]) for i in range(len(PROMPTS))] == list(NEWS)
    loaded = _weights(trial)
    judged = [
        reference.judge(trial.stack, trial.plan, loaded, prompt, tokens[i])
        for i, prompt in enumerate(PROMPTS)
    ]
    exact = torch.cat([part.exact for part in judged])
    trusted = torch.cat([part.trusted for part in judged])
    output = torch.cat([torch.cat(seen[i]) for i in range(len(PROMPTS))])
    emitted = [token for i in range(len(PROMPTS)) for token in tokens[i]]
    # As in a run: the reference's own errors over more rows than the few that are judged.
    own = Errors(max(part.own.max for part in judged), max(part.own.rms for part in judged))
    results = [
        *check_numeric(output, trusted, exact, torch.float32, own=own),
        *check_regret(exact, trusted, emitted, torch.float32),
    ]
    assert [result for result in results if not result.passed] == []


def _weights(trial: Trial) -> dict[str, Tensor]:
    return weights.load(trial.source, trial.plan.shape, torch.float32, "cpu", SEED)


def _engine(trial: Trial) -> Any:
    return assemble(trial.plan, _weights(trial))


def _generate(
    trial: Trial, requests: Sequence[Request]
) -> tuple[dict[int, list[Tensor]], dict[int, list[int]]]:
    """Logits that decided the new tokens, and the new tokens, by request."""
    engine = _engine(trial)
    seen: dict[int, list[Tensor]] = {request.id: [] for request in requests}
    engine.observer = lambda request, place, logits: seen[request].append(logits.clone())
    tokens: dict[int, list[int]] = {request.id: [] for request in requests}
    for emission in _emissions(engine, requests):
        tokens[emission.request_id] += emission.token_ids
    return seen, tokens


def _emissions(engine: Any, requests: Sequence[Request]) -> Iterator[Emission]:
    for request in requests:
        engine.submit(request)
    steps = 0
    while engine.has_work:
        yield from engine.step()
        steps += 1
        assert steps < 1000, "the engine never ends"


@pytest.mark.parametrize(("name", "chosen"), _all(Slot.CACHE))
def test_a_cache_holds_what_its_twin_holds(name: str, chosen: dict[str, Any], twins: Twins) -> None:
    """Whatever the order of the engine's verbs. A lossy cache is held to the lengths alone."""
    trial = _trial(name, chosen)
    operation = st.tuples(st.sampled_from(twins.verbs), st.integers(0, 4), st.integers(0, 2**16))

    @hypothesis.settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @hypothesis.given(st.lists(operation, max_size=25))
    def check(operations: list[tuple[str, int, int]]) -> None:
        twins.pair(trial.technique, trial.options, trial.plan).apply(operations)

    check()


@pytest.mark.parametrize(("name", "chosen"), _all(Slot.CACHE))
def test_a_cache_counts_the_entries_it_holds(
    name: str, chosen: dict[str, Any], twins: Twins
) -> None:
    """By the formula: tokens x numbers of an entry x bytes, whatever was reserved for them.

    What left a group's window may be given back, an entry or a block at a time.
    """
    trial = _trial(name, chosen)
    pair = twins.pair(trial.technique, trial.options, trial.plan)
    for seq, count in ((1, 5), (2, 9)):
        assert pair.forward({seq: [tuple(range(seq, seq + n + 1)) for n in range(count)]})
        pair.store.settle(seq)
    if trial.technique.exactness(trial.options) is Exactness.IDENTICAL:
        gone = twins.entries_out_of_window(5) + twins.entries_out_of_window(9)
        whole = 14 * twins.entry_bytes if pair.incremental else 0
        possible = range(whole, whole - gone - 1, -twins.windowed_entry_bytes)
        assert pair.store.held_bytes() in (possible if pair.incremental else [0])
    assert pair.store.reserved_bytes() >= pair.store.held_bytes()
    pair.store.reset()
    assert pair.store.held_bytes() == 0
    assert pair.store.length(1) == pair.store.length(2) == 0


@pytest.mark.parametrize(("name", "chosen"), _all(Slot.DECODING))
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_decoder_generates_what_its_reference_generates(
    name: str, chosen: dict[str, Any], temperature: float
) -> None:
    """Sampled tokens too, with the same noise, where exactly these are promised."""
    trial = _trial(name, chosen)
    exactness = trial.technique.exactness(trial.options)
    if temperature and exactness is not Exactness.IDENTICAL:
        return
    sampling = Sampling(temperature=temperature, seed=31)
    requests = [Request(i, p, NEWS[i], sampling) for i, p in enumerate(PROMPTS)]
    _, tokens = _generate(trial, requests)
    loaded = _weights(trial)

    def logits(sequence: list[int]) -> Tensor:
        rows = reference.logits(
            trial.stack, trial.plan, loaded, torch.tensor(sequence), torch.float64
        )
        return rows[-1] / (temperature or 1.0)

    noise = (lambda place: uniform(31, place)) if temperature else None
    generate = load(trial.technique.reference)
    assert tokens == {
        i: generate(logits, list(prompt), NEWS[i], noise) for i, prompt in enumerate(PROMPTS)
    }


class Recorder:
    """A scheduler that notes when the one inside it first runs a sequence, and lets it go."""

    def __init__(self, inner: Scheduler) -> None:
        self._inner = inner
        self._step = 0
        self._known: set[int] = set()
        self.events: list[tuple[int, str, int]] = []

    def schedule(self, view: View) -> list[Run]:
        self._step += 1
        runs = self._inner.schedule(view)
        for run in runs:
            if run.sequence.id not in self._known:
                self._known.add(run.sequence.id)
                self.events.append((self._step, "admitted", run.sequence.id))
        return runs

    def release(self, view: View, emissions: list[Emission]) -> list[Emission]:
        return self._inner.release(view, emissions)

    def retired(self, view: View) -> list[Running]:
        leaving = self._inner.retired(view)
        self.events += [(self._step, "finished", sequence.id) for sequence in leaving]
        return leaving

    def reset(self) -> None:
        self._inner.reset()


@pytest.mark.parametrize(("name", "chosen"), _all(Slot.SCHEDULING))
def test_a_scheduler_keeps_its_invariants(name: str, chosen: dict[str, Any]) -> None:
    """Everybody is served, nothing stays behind, and its own reference has no objection."""
    trial = _trial(name, chosen)
    engine = _engine(trial)
    engine.scheduler = recorder = Recorder(engine.scheduler)
    requests = [Request(i, PROMPTS[i % len(PROMPTS)], 1 + 3 * i % 7) for i in range(11)]
    emitted = {request.id: 0 for request in requests}
    for emission in _emissions(engine, requests):
        emitted[emission.request_id] += len(emission.token_ids)
    assert emitted == {request.id: request.max_new_tokens for request in requests}
    assert engine.runner.store.held_bytes() == 0
    assert sum(kind == "finished" for _, kind, _ in recorder.events) == len(requests)
    load(trial.technique.reference)(recorder.events)
