"""A draft beside its target: how often the target would take what the draft proposes.

Teacher-forced on held-out text, so that no loop a model falls into flatters the rate. It means
something only beside both losses and the entropy: two untrained models agree best of all.
"""

import torch
from torch import Tensor
from torch.nn import functional

from harness.records import Record
from harness.zoo.network import Network


class Pair(Record):
    """Means over the tokens of held-out windows. Losses, entropies and KL in nats a token."""

    target: str
    windows: int
    target_loss: float
    draft_loss: float
    target_entropy: float
    draft_entropy: float
    divergence: float  # KL(target, draft)
    acceptance: float  # sum over the vocabulary of min(p, q) (arXiv:2211.17192, corollary 3.6)
    agreement: float  # both find the same token the likeliest

    @property
    def gap(self) -> float:
        """What the draft loses against the target, in nats a token."""
        return self.draft_loss - self.target_loss


def compare(name: str, target: Network, draft: Network, windows: Tensor, rows: int = 8) -> Pair:
    """Judge a draft against the target of that name on windows [W, T+1]."""
    sums = torch.zeros(7, dtype=torch.float64)
    with torch.inference_mode():
        for part in torch.split(windows, rows):
            after = part[:, 1:].unsqueeze(-1)  # [B, T, 1]
            p = functional.log_softmax(target(part[:, :-1]), -1)  # [B, T, V]
            q = functional.log_softmax(draft(part[:, :-1]), -1)  # [B, T, V]
            chances_p, chances_q = p.exp(), q.exp()
            sums += torch.stack(
                [
                    -p.gather(-1, after).sum(),
                    -q.gather(-1, after).sum(),
                    -(chances_p * p).sum(),
                    -(chances_q * q).sum(),
                    (chances_p * (p - q)).sum(),
                    torch.minimum(chances_p, chances_q).sum(),
                    (p.argmax(-1) == q.argmax(-1)).sum().to(p.dtype),
                ]
            ).double()
    means = (sums / windows[:, 1:].numel()).tolist()
    names = list(Pair.model_fields)[2:]
    return Pair(target=name, windows=len(windows), **dict(zip(names, means, strict=True)))
