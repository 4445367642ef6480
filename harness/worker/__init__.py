"""One case in one process: `python -P -m harness.worker job.json run.json`."""
