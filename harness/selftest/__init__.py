"""`harness selftest`: techniques with known answers go through the real sweep, which must say so.

Each fake under `fakes/` is a technique that lies, breaks or behaves in one known way. `trials.py`
says what must come out of each, `judge.py` holds what came out to that. A fake depends on one check
of the instrument: `tests/acceptance/selftest_mutants.py` shows that it is noticed by that check.
"""
