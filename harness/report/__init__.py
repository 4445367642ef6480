"""Results told to people: terminal, Markdown, HTML."""
