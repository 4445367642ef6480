"""The small trained models: training script, corpus, tokenizer, weights and model cards.

`table.py` lists every model with its budget; `python -m harness.zoo train NAME` trains one.
Training is never part of the tests; the weights in `models/` are.
"""
