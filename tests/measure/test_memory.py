"""Peak memory: what is allocated while it counts is seen, and what came before is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.measure import memory
from harness.measure.memory import CpuPeak

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="resident memory is read from Linux' /proc"
)
MIB = 1 << 20


def touch(mib: int) -> bytearray:
    block = bytearray(mib * MIB)
    block[::4096] = b"x" * len(block[::4096])
    return block


def test_a_block_that_was_freed_again_counts() -> None:
    peak = CpuPeak()
    peak.restart()
    touch(64)
    found = peak.read().bytes
    assert found is not None
    # The kernel counts pages a thread in lots of 64 and may be one lot behind.
    assert 63 * MIB <= found < 80 * MIB


def test_what_was_freed_before_the_restart_does_not_count() -> None:
    """The gates' references come and go before timing begins."""
    peak = CpuPeak()
    touch(64)
    peak.restart()
    found = peak.read().bytes
    assert found is not None
    assert found < 16 * MIB


def test_without_permission_to_reset_there_is_a_reason_and_no_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "missing" / "clear_refs")
    peak = CpuPeak()
    peak.restart()
    assert peak.read().bytes is None
    assert "does not permit" in (peak.read().reason or "")


def test_a_system_without_proc_gives_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    assert "no /proc" in (CpuPeak().read().reason or "")
