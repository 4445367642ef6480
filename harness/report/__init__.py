"""Results told to people: terminal, Markdown, HTML.

`sheet` decides what is said; `terminal`, `markdown` and `page` only lay it out; `run_view` shows
one run. The package itself imports nothing, so a terminal table loads no plotting library.
"""
