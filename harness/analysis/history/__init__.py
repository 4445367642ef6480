"""When did it break? Series from the store, what changed in them, why, and who must be told."""
