"""A suite to its cases: every point with its model and engine plan, or why it cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product

from harness import stack as stacks
from harness.errors import UnfitError, UsageError, unknown
from harness.fit import uncapturable
from harness.model import source as models
from harness.model.source import ModelSource
from harness.plan import EnginePlan, Limits
from harness.suite.case import Case, StackSpec
from harness.suite.grid import Grid, Point, grid
from harness.suite.kernels import KernelWorkload
from harness.suite.points import KernelPoint, StackPoint
from harness.suite.schema import Profile, Suite
from harness.suite.settings import with_profile


@dataclass(frozen=True)
class Planned:
    """A case and its plan; `unsupported` says why it cannot run. A kernel's case needs no plan."""

    case: Case
    plan: EnginePlan | None
    unsupported: str | None

    @property
    def runnable(self) -> bool:
        """Whether a process can be tried."""
        return self.unsupported is None


def cases(suite: Suite, profile: Profile, only: Sequence[str] = ()) -> list[Planned]:
    """The suite's cases under a profile, in the stable order of `harness.suite.grid`.

    Args:
        suite: as loaded; its profile is laid over it here.
        profile: the kind of device.
        only: globs on the stack's label or the case's title ("gqa*", "* B8 *"); a case that
            matches one of them is kept.

    Raises:
        UsageError: no model is named, nothing is left of the grid, a glob matches nothing.
        UnfitError: none of the cases can run; the sentence is that of the first.
    """
    laid = with_profile(suite, profile)
    if isinstance(laid.workload, KernelWorkload):
        return _matching(_kernel_cases(laid), only)
    if not laid.model:
        raise UsageError(
            f"{laid.document.name} names no model for the profile {profile}; add model: zoo/small, "
            f"or the same under profiles: {profile}:"
        )
    built = grid(laid)
    points = built.points()
    if not points:
        raise UsageError(
            f"{laid.document.place(('exclude',))}: exclude takes out all {built.size:,} points of "
            "the grid; nothing is left to measure"
        )
    planner = _Planner(laid, built)
    planned = _matching([planner.plan(point) for point in points], only)
    missing = [found for found in planner.sources.values() if isinstance(found, UsageError)]
    if len(missing) == len(planner.sources):
        raise UsageError(f"{laid.document.place(('model',))}: {missing[0]}")
    if not any(entry.runnable for entry in planned):
        raise UnfitError(f"{laid.document.name}: no case can run; {planned[0].unsupported}")
    return planned


def kernel_points(suite: Suite) -> tuple[KernelPoint, ...]:
    """The shapes of a suite of kernels. UsageError, with its line, for one that cannot be."""
    assert isinstance(suite.workload, KernelWorkload)
    try:
        return suite.workload.points()
    except UsageError as error:
        raise UsageError(f"{suite.document.place(('workload', 'shapes'))}: {error}") from error


def _kernel_cases(suite: Suite) -> list[Planned]:
    """The cases of a suite of kernels: shapes, then backend, dtype, threads."""
    return [
        Planned(
            Case(
                stack=None,
                model="",
                checkpoint_hash=None,
                workload=point,
                backend=backend,
                dtype=dtype,
                threads=threads,
            ),
            None,
            None,
        )
        for point, backend, dtype, threads in product(
            kernel_points(suite), suite.backend, suite.dtype, suite.threads
        )
    ]


@dataclass
class _Planner:
    """Plans the points of one suite; what points share is worked out once."""

    suite: Suite
    grid: Grid
    # A model that is not found costs the stacks that ask for it, not the suite.
    sources: dict[tuple[str, tuple[str, ...]], ModelSource | UsageError] = field(
        default_factory=dict
    )
    parts: dict[str, list[stacks.Part]] = field(default_factory=dict)
    workloads: dict[Point, StackPoint] = field(default_factory=dict)
    plans: dict[Point, EnginePlan | UsageError] = field(default_factory=dict)
    # With the model's own architecture, by the model and the label in the suite.
    complete: dict[tuple[str, str], StackSpec] = field(default_factory=dict)

    def plan(self, point: Point) -> Planned:
        """The case at a point, and its plan or the reason why there is none."""
        values = dict(zip(self.grid.axes, point, strict=True))
        stack, model = self.grid.stacks[values["stack"]], values["model"]
        source = self._source(stack, model)
        found = source if isinstance(source, ModelSource) else None
        if found is not None:
            stack = self._completed(stack, model, found)
        case = Case(
            stack=stack,
            model=found.name if found else model,
            checkpoint_hash=found.checkpoint_hash if found else None,
            workload=self._workload(point),
            backend=values["backend"],
            dtype=values["dtype"],
            threads=values["threads"],
            cuda_graph=self.suite.measure.cuda_graph,
        )
        plan = self._plan(case, source) if isinstance(source, ModelSource) else source
        if isinstance(plan, EnginePlan):
            reason = uncapturable(plan) if case.cuda_graph else None
            return Planned(case, plan, reason and f"cuda_graph: {reason}")
        return Planned(case, None, str(plan))

    def _completed(self, stack: StackSpec, model: str, source: ModelSource) -> StackSpec:
        """The stack with the model's own architecture; UsageError when another is the same then."""
        key = (model, stack.label)
        if key not in self.complete:
            full = stacks.completed(stack, source)
            bare = full.model_copy(update={"label": ""})
            for (of, label), other in self.complete.items():
                if of == model and bare == other.model_copy(update={"label": ""}):
                    raise UsageError(
                        f"{self.suite.document.place(('stacks',))}: '{label}' and '{stack.label}' "
                        f"are the same stack on {source.name}; list one of them"
                    )
            self.complete[key] = full
        return self.complete[key]

    def _source(self, stack: StackSpec, model: str) -> ModelSource | UsageError:
        key = (model, stack.member_names)
        if key not in self.sources:
            try:
                self.sources[key] = models.find(model, stack.member_names)
            except UsageError as error:
                self.sources[key] = error
        return self.sources[key]

    def _workload(self, point: Point) -> StackPoint:
        workload = self.suite.workload
        assert not isinstance(workload, KernelWorkload)
        names = list(workload.axes())
        key = point[-len(names) :]
        if key not in self.workloads:
            try:
                self.workloads[key] = workload.point(dict(zip(names, key, strict=True)))
            except UsageError as error:
                place = self.suite.document.place(("workload",))
                raise UsageError(f"{place}: {error}") from error
        return self.workloads[key]

    def _plan(self, case: Case, source: ModelSource) -> EnginePlan | UsageError:
        label, work = case.label, case.stacked
        limits = Limits(slots=work.slots, max_tokens=work.max_tokens, state_bytes=work.state_bytes)
        key = (label, source.name, case.backend, case.dtype, limits)
        if key not in self.plans:
            if label not in self.parts:
                self.parts[label] = stacks.techniques(case.composed)
            bare = EnginePlan(source.shape, case.dtype, case.backend, limits)
            try:
                self.plans[key] = stacks.assemble(label, self.parts[label], bare, source)
            except UnfitError as error:
                self.plans[key] = error
        return self.plans[key]


def _matching(planned: list[Planned], only: Sequence[str]) -> list[Planned]:
    """The cases that one of the globs matches; all when there is none."""
    if not only:
        return planned
    names = [(entry.case.label, entry.case.title) for entry in planned]
    for glob in only:
        if not any(fnmatchcase(name, glob) for pair in names for name in pair):
            raise unknown("--only pattern", glob, {label for label, _ in names})
    return [
        entry
        for entry, pair in zip(planned, names, strict=True)
        if any(fnmatchcase(name, glob) for glob in only for name in pair)
    ]
