"""`python -m harness.report.verdicts FILE.json [--link URL]`: verdicts as the text of an issue."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.errors import HarnessError, UsageError
from harness.report.verdicts.forms import from_json
from harness.report.verdicts.markdown import COMMENT_BYTES, cut, render


def main() -> int:
    """Print Markdown that is short enough for an issue or a comment."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--link", default="", help="where the whole report is")
    asked = parser.parse_args()
    try:
        told = from_json(_read(asked.file), str(asked.file))
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return int(error.exit_code)
    whole = asked.link or "the full report"
    print(cut(render(told), COMMENT_BYTES, whole))
    if asked.link:
        print(f"\nThe run: {asked.link}")
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
