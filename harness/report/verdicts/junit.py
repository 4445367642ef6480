"""Verdicts as JUnit XML, the shape that Jenkins, GitLab and GitHub's third-party actions read.

An alarm is a failure, a row that is invalid without one an error, an unknown one skipped: a reader
sees that it was tried. Held to Jenkins' schema (junit-10.xsd) by what stands where: `skipped` only
on suites, properties only there too, and pairs of classname and name that occur once, as GitLab
loses later ones.
"""

from __future__ import annotations

from collections import Counter
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from harness.analysis.verdict import Verdict, Verdicts
from harness.report.verdicts import table


def render(told: Verdicts) -> str:
    """The whole as one XML document."""
    kinds = Counter(_kind(row) for row in told.rows)
    numbers = {
        "name": f"harness {told.tool}",
        "tests": str(len(told.rows)),
        "failures": str(kinds["failure"]),
        "errors": str(kinds["error"]),
        "time": "0",
    }
    suites = Element("testsuites", numbers)
    suite = SubElement(
        suites,
        "testsuite",
        numbers
        | {
            "skipped": str(kinds["skipped"]),
            "timestamp": f"{told.at:%Y-%m-%dT%H:%M:%S}",
            "hostname": "localhost",
        },
    )
    properties = SubElement(suite, "properties")
    for name, value in (("title", told.title), *told.conditions):
        SubElement(properties, "property", {"name": name, "value": _legal(value)})
    seen: Counter[tuple[str, str]] = Counter()
    for row in table.ordered(told.rows):
        _case(suite, row, seen)
    log = [f"not compared: {refused.title}: {refused.reason}" for refused in told.refused]
    SubElement(suite, "system-out").text = _legal("\n".join([table.outcome(told), *log]))
    SubElement(suite, "system-err")
    indent(suites)
    return tostring(suites, encoding="unicode", xml_declaration=False, short_empty_elements=True)


def document(told: Verdicts) -> str:
    """The same with its declaration, for a file in UTF-8."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{render(told)}\n'


def _kind(row: Verdict) -> str:
    """Which element tells of the row; "" where it is good."""
    if row.alarm:
        return "failure"
    if row.verdict == "invalid":
        return "error"
    return "skipped" if row.verdict == "unknown" else ""


def _case(suite: Element, row: Verdict, seen: Counter[tuple[str, str]]) -> None:
    subject = row.subject
    group = _legal(table.place(row))
    seen[group, subject.metric] += 1
    again = seen[group, subject.metric]
    name = subject.metric if again == 1 else f"{subject.metric} [{again}]"
    case = SubElement(suite, "testcase", {"classname": group, "name": name, "time": "0"})
    kind, text = _kind(row), _legal(table.sentence(row))
    if kind:
        told = SubElement(case, kind, {"message": text, "type": table.verdict(row)})
        told.text = text if kind != "skipped" else None
    else:
        SubElement(case, "system-out").text = text


def _legal(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold, escaped or not."""
    return "".join(c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd"
                   or c >= "\U00010000" else "?" for c in text)  # fmt: skip
