"""One file a schema revision, oldest first: vNNNN_<what_changed>.py."""
