"""Migrations of the store. `python -m harness.store.migrations "add x"` drafts the next one.

Change the models, draft, read and finish the draft, raise `harness.store.schema.HEAD`. Tests go up,
down and up again, and fail where models and migrations disagree.
"""
