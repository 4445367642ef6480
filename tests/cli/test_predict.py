"""`harness predict` and `harness list hardware`: tables, CSV, own entries, and wrong names."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import build
from harness.errors import UsageError

OWN = """\
devices:
  mine:
    name: My board
    arch: sm_90
    tflops: {bfloat16: 500, float16: 500}
    memory_gb: 96
    bandwidth_gb_s: 4000
    l2_mb: 50
    multiprocessors: 100
    tdp_w: 500
    price_per_hour: 3.0
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["predict", *arguments], env={"COLUMNS": "200"})


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, UsageError)
    return str(result.exception)


def test_a_stack_on_two_devices() -> None:
    result = run("--stack", "mha", "--stack", "gqa(kv_heads=8)", "--model", "llama-2-13b",
                 "--hardware", "h100-sxm,b200", "--set", "workload.batch=1,256",
                 "--price", "2.5")  # fmt: skip
    assert result.exit_code == 0
    head, *rows = result.output.splitlines()
    assert head.split()[:6] == ["stack", "dtype", "B", "P", "N", "hardware"]
    assert len([row for row in rows if " h100-sxm " in row]) == 4
    crowded = next(row for row in rows if row.startswith("mha") and " 256 " in row)
    assert " NO " in crowded
    assert "compute, memory" in crowded
    assert "h100-sxm: times hold within a factor of 1.34 in 95 % of cases" in result.output


def test_a_suite_is_read_under_the_profile_of_the_devices() -> None:
    result = run("decode", "--hardware", "h200-sxm", "--csv")
    rows = list(csv.DictReader(io.StringIO(result.output)))
    assert {row["model"] for row in rows} == {"llama-3-8b"}
    assert {row["dtype"] for row in rows} == {"bfloat16"}
    assert {row["hardware"] for row in rows} == {"h200-sxm"}
    one = rows[0]
    assert float(one["ttft_s"]) > float(one["tpot_s"]) > 0
    assert float(one["factor_95"]) > 1
    assert one["usd_per_million_tokens"] == ""


def test_a_suite_of_kernels_shows_the_lecture_s_point() -> None:
    """The linear layer's rate grows with B up to the ridge; attention's stays where it is."""
    result = run("intensity", "--hardware", "h100-sxm", "--csv")
    rates: dict[str, list[float]] = {"linear": [], "decode_attention": []}
    for row in csv.DictReader(io.StringIO(result.output)):
        rates[row["kernel"]].append(float(row["flops"]) / float(row["seconds"]))
    assert rates["linear"][-1] / rates["linear"][0] > 100
    assert rates["decode_attention"][-1] / rates["decode_attention"][0] < 1.5
    assert "memory" in run("intensity", "--hardware", "h100-sxm").output


def test_a_file_of_own_entries(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OWN)
    result = run("--stack", "gqa", "--model", "llama-3-8b", "--hardware", f"{file},h100-sxm")
    assert result.exit_code == 0
    mine = next(line for line in result.output.splitlines() if " mine " in line)
    assert mine.split()[-2] != "-", "with its price"
    file.write_text(OWN.replace("memory_gb: 96", "memory_gb: -96"))
    assert "line 6: devices.mine.memory_gb must be greater than 0" in refused(
        "--stack", "gqa", "--model", "llama-3-8b", "--hardware", str(file)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a suite, or --stack and --model"),
        (
            ("decode", "--stack", "mha", "--hardware", "b200"),
            "name a suite, or --stack and --model",
        ),
        (("--stack", "mha"), "--stack needs --model"),
        (("decode", "--hardware", "h100"), "unknown hardware 'h100'; did you mean 'h100-"),
        (("decode", "--hardware", ","), "--hardware names no device"),
        (("decode", "--hardware", "no.yaml"), "no.yaml cannot be read: No such file"),
        (("--stack", "mhaa", "--model", "tiny", "--hardware", "b200"), "unknown technique 'mhaa'"),
        (("--stack", "mha", "--model", "tinny", "--hardware", "b200"), "unknown model 'tinny'"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    given = arguments if "--hardware" in arguments else (*arguments, "--hardware", "b200")
    assert message in refused(*given)


def test_sequences_longer_than_the_model_say_so() -> None:
    result = run("--stack", "mha", "--model", "llama-2-13b", "--hardware", "h200-sxm",
                 "--set", "workload.prompt_tokens=128,8192")  # fmt: skip
    assert "> 4096 places" in result.output


def test_list_hardware_shows_this_machine_and_the_catalogue() -> None:
    result = CliRunner().invoke(build(), ["list", "hardware"])
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.output.splitlines()}
    assert "local" in lines
    assert " 295 " in lines["h100-sxm"]
