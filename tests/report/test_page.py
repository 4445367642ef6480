"""The HTML page and the Markdown text: self-contained, well-formed, and nothing is markup."""

import re
from html.parser import HTMLParser
from types import ModuleType

import pytest

from harness.analysis.results import results
from harness.report.markdown import markdown
from harness.report.page import html

VOID = {"meta", "br", "link", "img", "hr"}


class _Tags(HTMLParser):
    """Every tag in order; raises where one is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(example_sweep: ModuleType) -> str:
    return html(example_sweep.row(), results(example_sweep.runs()))


@pytest.fixture(scope="module")
def tags(page: str) -> _Tags:
    parser = _Tags()
    parser.feed(page)
    return parser


def test_every_tag_is_closed(tags: _Tags) -> None:
    assert tags.open == []


def test_nothing_is_loaded_from_anywhere(page: str, tags: _Tags) -> None:
    assert not {"script", "link", "img", "iframe", "object", "image"} & {t for t, _ in tags.seen}
    references = [
        value
        for _, attributes in tags.seen
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "data", "action")
    ]
    assert all(value and value.startswith("#") for value in references)
    assert "@import" not in page
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "default-src 'none'" in page


def test_three_plots_whose_ids_do_not_clash(page: str, tags: _Tags) -> None:
    assert [t for t, _ in tags.seen].count("svg") == 3
    ids = [a["id"] for t, a in tags.seen if a.get("id") and t in ("clipPath", "path")]
    assert len(ids) == len(set(ids))
    for title in ("Time per token against prompt length", "Throughput against batch", "State held"):
        assert title in page


def test_plots_follow_the_colours_of_the_page(page: str) -> None:
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert "currentColor" in drawn
    assert "var(--series-1)" in drawn
    # No colour is fixed, so nothing is black on black; white would be a background.
    assert set(re.findall(r"#[0-9a-f]{6}\b", drawn)) <= set()


def test_conditions_stand_below_every_plot(page: str) -> None:
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page, re.DOTALL)
    assert len(captions) == 3
    assert all("Example CPU 9000" in caption and "float32" in caption for caption in captions)


def test_formulas_are_folded_and_there(page: str) -> None:
    assert "<details><summary>Formulas of the metrics</summary>" in page
    assert "(last stamp - first stamp)" in page


def test_the_same_sweep_gives_the_same_page(page: str, example_sweep: ModuleType) -> None:
    assert html(example_sweep.row(), results(example_sweep.runs())) == page


def test_markup_in_names_and_reasons_is_text(example_sweep: ModuleType) -> None:
    evil = "<script>alert(1)</script> $x_1$ | `code`"
    of = example_sweep.case("mha")
    of = of.model_copy(update={"stack": of.stack.model_copy(update={"label": evil})})
    runs = [
        *example_sweep.rounds(of, "tpot", [1e6, 1e6]),
        *example_sweep.rounds(
            of.model_copy(update={"workload": example_sweep.case("mha", prompt=256).workload}),
            "tpot",
            [2e6, 2e6],
            first_id=5,
        ),
        *example_sweep.stored(
            example_sweep.case("gqa"),
            example_sweep.record(example_sweep.case("gqa"), 1, "error", reason=evil),
            first_id=9,
        ),
    ]
    row = example_sweep.row().model_copy(update={"suite_text": evil, "suite": evil})
    page = html(row, results(runs))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    text = markdown(row, results(runs))
    assert "<script" not in text.replace("\\<script", "")
    table = next(line for line in text.splitlines() if "alert" in line and "| error |" in line)
    assert len(re.findall(r"(?<!\\)\|", table)) == 4


def test_a_sweep_of_one_case_has_no_plots_but_a_page(example_sweep: ModuleType) -> None:
    runs = example_sweep.rounds(example_sweep.case("mha"), "tpot", [1e6, 1.1e6])
    page = html(example_sweep.row(), results(runs))
    assert "<svg" not in page
    assert "1.05 ms" in page


def test_markdown_tables_have_as_many_cells_as_their_heads(example_sweep: ModuleType) -> None:
    text = markdown(example_sweep.row(), results(example_sweep.runs()))
    width = None
    for line in text.splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        assert width in (None, cells)
        width = cells
    assert "1.75x" in text
    assert "gate\\_failed, see below" in text
