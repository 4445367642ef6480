"""Training: a function of table row, corpus and tokenizer, the same to the bit on one CPU."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.zoo import checkpoint, corpus, export, material, network, start, stream
from harness.zoo.table import Budget, Entry

# Steps between two points of the curve.
CURVE_STEPS = 200
# Steps between two checkpoints.
CHECKPOINT_STEPS = 100
# Gradients are scaled down to this norm.
GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class Trained:
    """A network at the end of its budget, or where a `stop` interrupted it."""

    network: network.Network
    progress: checkpoint.Progress


@dataclass(frozen=True)
class Guide:
    """A teacher at work, and the share of its divergence in the loss (see `table.Teacher`)."""

    network: network.Network
    weight: float


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: sums of another split would round to other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def train(
    entry: Entry,
    novels: list[corpus.Novel],
    tokenizer: tokenizers.Tokenizer,
    path: Path,
    *,
    models: Path = export.MODELS,
    resume: bool = False,
    stop: int | None = None,
    tell: Callable[[checkpoint.Progress], None] | None = None,
) -> Trained:
    """Train one row of the table.

    Args:
        entry: the row.
        novels: the corpus.
        tokenizer: the family's tokenizer.
        path: where the checkpoint is kept.
        models: the folder of the models that the row starts from or learns from.
        resume: go on from the checkpoint, where there is one.
        stop: end after this many steps instead of the budget's, as an interruption would.
        tell: called after each point of the curve.
    """
    recipe = digest(entry, novels, tokenizer, models)
    learned = material.of(entry, novels, tokenizer)
    guide = None
    if entry.teacher is not None:
        guide = Guide(start.read(entry.teacher.model, models), entry.teacher.weight)
    net = start.weights(entry, models)
    optimizer = make_optimizer(net, entry.budget)
    progress = checkpoint.Progress(
        model=entry.name, recipe=recipe, step=0, cpu_seconds=0, loss_sum=0, loss_count=0, curve=()
    )
    if resume and path.exists():
        progress, tensors = checkpoint.load(path, recipe)
        restore(net, optimizer, tensors)

    last = entry.budget.steps if stop is None else min(stop, entry.budget.steps)
    while progress.step < last:
        began = time.process_time()
        batch = learned.batch(progress.step)
        loss = train_step(net, optimizer, entry.budget, batch, progress.step, guide)
        progress = progress.model_copy(
            update={
                "step": progress.step + 1,
                "loss_sum": progress.loss_sum + loss,
                "loss_count": progress.loss_count + 1,
            }
        )
        marked = progress.step % CURVE_STEPS == 0 or progress.step == entry.budget.steps
        if marked:
            progress = mark(progress, learned.judge(net))
        spent = progress.cpu_seconds + time.process_time() - began
        progress = progress.model_copy(update={"cpu_seconds": spent})
        if marked and tell is not None:
            tell(progress)
        if progress.step % CHECKPOINT_STEPS == 0 or progress.step == last:
            checkpoint.save(path, progress, state(net, optimizer))
    return Trained(network=net, progress=progress)


def mark(progress: checkpoint.Progress, judged: material.Judged) -> checkpoint.Progress:
    """Add a point to the curve and begin a new mean of the training loss."""
    point = checkpoint.Point(
        step=progress.step,
        train_loss=progress.loss_sum / progress.loss_count,
        held_out_loss=judged.loss,
        accuracy=judged.accuracy,
    )
    return progress.model_copy(
        update={"loss_sum": 0.0, "loss_count": 0, "curve": (*progress.curve, point)}
    )


def train_step(
    net: network.Network,
    optimizer: torch.optim.Optimizer,
    budget: Budget,
    batch: stream.Batch,
    step: int,
    guide: Guide | None = None,
) -> float:
    """One update, and the mean cross entropy in nats a token before it."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(budget, step)
    with torch.autocast("cpu", torch.bfloat16, enabled=budget.precision == "bfloat16"):
        logits = net(batch.tokens)  # [B, T, V]
    loss = stream.loss(logits, batch.targets)
    told = loss.item()
    if guide is not None:
        loss = (1 - guide.weight) * loss + guide.weight * divergence(guide.network, logits, batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    torch.nn.utils.clip_grad_norm_(net.parameters(), GRADIENT_NORM)
    optimizer.step()
    return told


def divergence(teacher: network.Network, logits: Tensor, batch: stream.Batch) -> Tensor:
    """Mean KL divergence in nats a token from the teacher's distributions to those of `logits`."""
    with torch.no_grad():
        wanted = functional.log_softmax(teacher(batch.tokens), -1)  # [B, T, V]
    found = functional.log_softmax(logits.float(), -1)
    total = functional.kl_div(found, wanted, reduction="sum", log_target=True)
    return total / batch.tokens.numel()


def learning_rate(budget: Budget, step: int) -> float:
    """Linear from 0 over the warm-up, then linear to 0 at the end (arXiv:2502.15938)."""
    rising = (step + 1) / budget.warmup
    falling = (budget.steps - step) / max(1, budget.steps - budget.warmup)
    return budget.learning_rate * min(rising, falling, 1.0)


def make_optimizer(net: network.Network, budget: Budget) -> torch.optim.Optimizer:
    """AdamW; only the matrices of the layers decay, not norms and embeddings."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, weight in net.named_parameters():
        (decayed if weight.ndim == 2 and "embed" not in name else free).append(weight)
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": budget.decay},
        {"params": free, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=budget.learning_rate, betas=(0.9, 0.95))


def state(net: network.Network, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and both moments of AdamW by parameter name."""
    tensors: dict[str, Tensor] = {}
    for name, weight in net.named_parameters():
        tensors[f"weight/{name}"] = weight.detach()
        for key, value in optimizer.state[weight].items():
            tensors[f"{key}/{name}"] = value
    return tensors


def restore(
    net: network.Network, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Put back what `state` gave."""
    for name, weight in net.named_parameters():
        with torch.no_grad():
            weight.copy_(tensors[f"weight/{name}"])
        optimizer.state[weight] = {
            key: tensors[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq")
        }


def digest(
    entry: Entry,
    novels: list[corpus.Novel],
    tokenizer: tokenizers.Tokenizer,
    models: Path = export.MODELS,
) -> str:
    """Hash of all that decides the weights: table row, corpus, tokenizer, other models' weights."""
    recipe: dict[str, Any] = {
        "architecture": asdict(entry.architecture),
        "budget": asdict(entry.budget),
    }
    if entry.task is None:
        recipe["corpus"] = corpus.digest(novels)
        recipe["tokenizer"] = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    else:
        recipe["task"] = [type(entry.task).__name__, asdict(entry.task)]
    recipe |= start.recipe(entry, models)
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
