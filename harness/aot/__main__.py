"""`python -P -m harness.aot FOLDER`: a worker that compiles the units named on its input.

A line in is a JSON list of units of one target, a line out a list of figures, or of sentences.
"""

import json
import os
import sys
from pathlib import Path

from harness.aot.build import answered
from harness.aot.figures import Figures, UnitName


def main() -> None:
    """Answer line by line until the input ends."""
    # What compilers print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    where = Path(sys.argv[1])
    for line in sys.stdin:
        names = [UnitName.model_validate(each) for each in json.loads(line)]
        outcomes = answered(names, where)
        told = [each.model_dump() if isinstance(each, Figures) else each for each in outcomes]
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
