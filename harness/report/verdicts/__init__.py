"""Verdicts told: the same record as text, Markdown, JUnit XML, JSON and GitHub annotations.

`harness compare` and `harness regress` share all of it. `table` turns a record into cells once; the
others only lay them out.
"""

from harness.report.verdicts.forms import (
    FORMS,
    add_summary,
    from_json,
    render,
    require_forms,
    write,
)

__all__ = ["FORMS", "add_summary", "from_json", "render", "require_forms", "write"]
