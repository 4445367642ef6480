"""Request in, tokens out: the one loop that every stack runs through."""
