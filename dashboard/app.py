"""A stored sweep in a browser: choose a database and a sweep, see table, chart and raw samples.

Reads through the store's read-only engine, so it may be open while a sweep writes. All numbers
and sentences come from `harness.report`, so that a screen and a report cannot disagree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import altair as alt
import pandas as pd
import streamlit as st

from harness import paths
from harness.analysis.results import Result, results
from harness.errors import HarnessError
from harness.metrics import METRICS
from harness.report import units
from harness.report.conditions import named, outline, varying
from harness.report.markdown import escape
from harness.report.sheet import Sheet, order, sheet
from harness.report.terminal import legend
from harness.store import StoredRun, SweepRow, open_reader

# Stored ns are drawn in ms.
MS = 1e6
# Largest over smallest value from which an axis is logarithmic.
LOG_FROM = 12
# A table scrolls beyond this; Streamlit's rows have this height.
MOST_ROWS, ROW_PIXELS = 28, 35


def main() -> None:
    """The page, from top to bottom."""
    st.set_page_config(page_title="harness", layout="wide")
    database = st.sidebar.text_input(
        "Database", os.environ.get("HARNESS_DB") or str(paths.results() / "harness.db")
    )
    try:
        sweep, runs = choose_sweep(database)
        found = results(runs)
        told = choose_view(sweep, found)
    except HarnessError as error:
        st.error(escape(str(error)))
        return
    st.title(escape(told.title))
    if told.about:
        st.caption(escape(told.about))
    show_conditions(told)
    show_table(told)
    generated = [result for result in found if result.generates]
    if generated:
        show_chart(order(generated, told.baseline, outline(sweep).stacks), told)
    show_findings(told)
    show_samples(runs)


def choose_sweep(database: str) -> tuple[SweepRow, list[StoredRun]]:
    """The sweep picked in the sidebar, the newest at first, and its runs."""
    with open_reader(database) as reader:
        reader.sweep("last")  # says in one sentence when there is none
        rows = {row.id: row for row in reversed(reader.sweeps())}
        chosen = st.sidebar.selectbox(
            "Sweep",
            list(rows),
            format_func=lambda i: f"{i}: {rows[i].suite}, {rows[i].started_at:%Y-%m-%d %H:%M}",
        )
        return rows[chosen], reader.runs(chosen)


def choose_view(sweep: SweepRow, found: Sequence[Result]) -> Sheet:
    """The sheet for the baseline and the metric picked in the sidebar."""
    first = sheet(sweep, found)
    stacks = sorted({r.case.label for r in found})
    metrics = sorted({name for r in found for name in r.metrics if name in METRICS})
    baseline = st.sidebar.selectbox("Baseline", stacks, stacks.index(first.baseline))
    if not metrics:
        return sheet(sweep, found, baseline)
    metric = st.sidebar.selectbox("Ratio of", metrics, metrics.index(first.metric))
    st.sidebar.caption(escape(METRICS[metric].formula))
    return sheet(sweep, found, baseline, metric)


def show_conditions(told: Sheet) -> None:
    """What the numbers hold under, above all of them."""
    with st.expander("Conditions", expanded=True):
        st.code("\n".join(f"{name:10}{value}" for name, value in told.conditions), language=None)


def show_table(told: Sheet) -> None:
    """A row a result, the baseline first at each point; failures with their reason below."""
    rows = [
        {"point": block.title, "stack": line.stack}
        | dict(zip(told.titles, map(written, line.cells or (line.status,)), strict=False))
        for block in told.blocks
        for line in block.lines
    ]
    if rows:
        st.subheader("Results")
        columns = ["point", "stack", *told.titles]
        frame = pd.DataFrame(rows, columns=columns).fillna("")
        st.dataframe(frame, hide_index=True, height=min(len(rows) + 1, MOST_ROWS) * ROW_PIXELS + 3)
        st.caption(written(escape(legend(told))))
    for title, listed in (("Failed", told.failures), ("Not measured", told.untried)):
        if listed:
            st.subheader(title)
            frame = pd.DataFrame(listed, columns=["case", "status", "reason"])
            st.dataframe(frame, hide_index=True)


def written(text: str) -> str:
    """Text of a sheet, which is ASCII, as a screen writes it."""
    return text.replace("+-", "\N{PLUS-MINUS SIGN}")


def show_chart(found: Sequence[Result], told: Sheet) -> None:
    """The chosen metric against the prompt's length by stack, a panel a batch, with intervals."""
    unit = METRICS[told.metric].unit
    scale, shown = (MS, "ms") if unit == "ns" else (1.0, unit)
    label = f"{told.metric} ({shown})"
    names = varying(found)
    rows = []
    for result in found:
        w, estimate = result.case.workload, result.metrics.get(told.metric)
        value = None if estimate is None else estimate.value
        row = {
            "panel": f"batch {w.batch}, new {w.new_tokens} {named(result, names)}".rstrip(),
            "prompt tokens": w.prompt_tokens,
            "stack": result.case.label,
        }
        # A case without a value keeps its row: the line breaks there instead of skipping it.
        row |= {label: None, "low": None, "high": None}
        if estimate is not None and value is not None:
            bounds = (estimate.ci_low, estimate.ci_high)
            low, high = (value if bound is None else bound for bound in bounds)
            row |= {label: value / scale, "low": low / scale, "high": high / scale}
        rows.append(row)
    if all(row[label] is None for row in rows):
        return
    st.subheader(f"{label} against prompt length")
    frame = pd.DataFrame(rows)
    # A logarithm only where a straight axis would hide the small values.
    smallest, largest = frame[label].min(), frame[label].max()
    log = smallest > 0 and largest > LOG_FROM * smallest
    y_scale = alt.Scale(type="log") if log else alt.Scale(zero=True)
    y_axis = alt.Axis(values=decades(smallest, largest)) if log else alt.Axis()
    places = sorted(frame["prompt tokens"].unique().tolist())
    base = alt.Chart(frame).encode(
        x=alt.X(
            "prompt tokens:Q",
            scale=alt.Scale(type="log", base=2, nice=False, padding=12),
            axis=alt.Axis(values=places, format="d"),
        ),
        color=alt.Color(
            "stack:N",
            sort=list(dict.fromkeys(frame["stack"])),
            legend=alt.Legend(orient="top", title=None),
        ),
        tooltip=["stack", "panel", "prompt tokens", label, "low", "high"],
    )
    line = base.mark_line(point=alt.OverlayMarkDef(size=60)).encode(
        y=alt.Y(f"{label}:Q", scale=y_scale, axis=y_axis)
    )
    interval = base.mark_rule(strokeWidth=2).encode(
        y=alt.Y("low:Q", scale=y_scale, axis=y_axis, title=label), y2="high:Q"
    )
    panels = list(dict.fromkeys(frame["panel"]))
    chart = alt.layer(line, interval).properties(width=340, height=280)
    st.altair_chart(
        chart.facet(facet=alt.Facet("panel:N", sort=panels, title=None), columns=3),
        width="content",
    )
    st.caption("Geometric means over processes; bars are 95 % t intervals.")


def decades(smallest: float, largest: float) -> list[float]:
    """Ticks 1, 2, 5 of every decade around these values."""
    powers = range(math.floor(math.log10(smallest)), math.ceil(math.log10(largest)) + 1)
    return [digit * 10.0**power for power in powers for digit in (1, 2, 5)]


def show_findings(told: Sheet) -> None:
    """Slopes, state and notes, in the words of the report."""
    for grid in (*told.slopes, *told.details):
        with st.expander(escape(grid.title), expanded=grid in told.slopes):
            frame = pd.DataFrame(list(grid.rows), columns=columns(grid.header))
            st.dataframe(frame, hide_index=True)
            st.caption(escape(grid.note))
    for title, sentences in (("Findings", told.findings), ("Notes", told.notes)):
        if sentences:
            st.subheader(title)
            for sentence in sentences:
                st.text(f"- {sentence}")


def columns(header: Sequence[str]) -> list[str]:
    """Names of columns, each once: a bare "p90" or "p99" belongs to the name before it."""
    found, group = [], ""
    for name in header:
        bare = name.startswith("p") and name[1:].isdigit()
        group = group if bare else name.removesuffix(" p50")
        found.append(f"{group} {name}" if bare else name)
    return found


def show_samples(runs: Sequence[StoredRun]) -> None:
    """Every raw sample of one run, in the order in which it was taken."""
    sampled = {run.id: run for run in runs if run.record.samples}
    if not sampled:
        return
    st.subheader("Raw samples of one run")
    left, right = st.columns([3, 1])
    chosen = left.selectbox(
        "Run",
        sorted(sampled, key=lambda i: (sampled[i].case.title, sampled[i].record.round)),
        format_func=lambda i: f"{sampled[i].case.title}, round {sampled[i].record.round} (run {i})",
    )
    sets = {s.metric: s for s in sampled[chosen].record.samples}
    samples = sets[right.selectbox("Samples of", list(sets))]
    scale, unit = (MS, "ms") if samples.unit == "ns" else (1.0, samples.unit)
    label = f"{samples.metric} ({unit})"
    frame = pd.DataFrame({"sample": range(1, len(samples.values) + 1)})
    frame[label] = [value / scale for value in samples.values]
    st.altair_chart(
        alt.Chart(frame)
        .mark_circle(size=24, opacity=0.7)
        .encode(
            x=alt.X("sample:Q", scale=alt.Scale(nice=False)),
            y=alt.Y(f"{label}:Q", scale=alt.Scale(zero=False)),
            tooltip=["sample", label],
        )
        .properties(height=260)
    )
    shown = [units.duration(v) if samples.unit == "ns" else str(v) for v in samples.values]
    with st.expander(f"All {len(shown)} values"):
        st.dataframe(pd.DataFrame({"sample": frame["sample"], "value": shown}), hide_index=True)


main()
