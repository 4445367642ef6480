"""The family's one tokenizer: byte-level BPE of 1,024 entries, trained on the train parts."""

import hashlib
from pathlib import Path

import tokenizers
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from harness.errors import UsageError
from harness.model import tokenizer as model_tokenizer
from harness.zoo.corpus import Novel

PATH = Path(__file__).parent / "tokenizer.json"
ENTRIES = 1024
BOS, EOS = "<s>", "</s>"
BOS_ID, EOS_ID = 0, 1


def train(novels: list[Novel]) -> tokenizers.Tokenizer:
    """Learn the merges from the train parts of the novels.

    All 256 bytes are entries, so every text can be encoded; encoding adds no special token.
    """
    tokenizer = tokenizers.Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=ENTRIES,
        special_tokens=[BOS, EOS],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([novel.train for novel in novels], trainer)
    return tokenizer


def load(path: Path = PATH, entries: int | None = ENTRIES) -> tokenizers.Tokenizer:
    """Read a tokenizer; UsageError where it is missing or has more than `entries` entries."""
    if not path.is_file():
        raise UsageError(f"no tokenizer at '{path}'; `python -m harness.zoo tokenizer` trains it")
    return model_tokenizer.load(path, entries)


def digest(path: Path = PATH) -> str:
    """SHA-256 of the tokenizer's file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
