"""Apache Otava on series from standard input, in an environment of its own: it pins numpy.

Run as a script by `harness.analysis.evaluate.otava`; it knows nothing of this project.
Input: {"series": [[...]], "first": n, "settings": [[max_pvalue, min_magnitude], ...]}
Output: for each setting, for each series, the changes up of every prefix: [[night, position], ...]
"""

import json
import sys

# Otava pins another numpy: it is installed where this file runs, never where types are checked.
from otava.analysis import compute_change_points  # type: ignore[import-not-found]


def main() -> None:
    """Read, replay, write."""
    job = json.load(sys.stdin)
    answers = []
    for max_pvalue, min_magnitude in job["settings"]:
        found = []
        for series in job["series"]:
            said = []
            for n in range(job["first"], len(series) + 1):
                result = compute_change_points(
                    series[:n], window_len=50, max_pvalue=max_pvalue, min_magnitude=min_magnitude
                )
                # Older versions give the points, newer ones the points and the weak ones.
                points = result[0] if isinstance(result, tuple) else result
                said += [[n - 1, int(p.index)] for p in points if p.stats.mean_2 > p.stats.mean_1]
            found.append(said)
        answers.append(found)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
