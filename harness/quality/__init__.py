"""How good a stack's outputs are: text it expects, text it writes, and what it can look up.

`questions` says what is asked, `forced` runs a stack over given text, `scores` turns logits into
numbers, `kept` remembers them, and `tasks` puts a task together.
"""
