"""What a measurement ran on: detection, environment, revision, ceilings and estimates.

Nothing here imports torch at module level, and nothing is imported with the package: each worker
starts anew, and needs two of its modules.
"""
