"""The small trained models: training script, tokenizer, weights and model cards."""
