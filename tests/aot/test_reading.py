"""Figures read off texts of compilers: loads by argument, instructions by kind, occupancy."""

from __future__ import annotations

import struct

import pytest

from harness.aot import amd, nvidia
from harness.aot.occupancy import occupancy
from harness.aot.operands import llvm_widths, ptx_widths
from harness.errors import HarnessError
from harness.target import TARGETS

PTX = """
	ld.param.b64 	%rd1, [_attend_param_0];
	ld.param.b64 	%rd2, [_attend_param_1];
	ld.param.b32 	%r1, [_attend_param_2];
	ld.param.b64 	%rd90, [_attend_param_4];
	mul.wide.s32 	%rd3, %r1, 2;
	add.s64 	%rd4, %rd1, %rd3;
	// begin inline asm
	@%p1 ld.global.v4.b32 { %r5, %r6, %r7, %r8 }, [ %rd4 + 0 ];
	@!%p1 ld.global.L1::evict_last.b16 { %rs1 }, [ %rd2 + 0 ];
	ld.global.b32 { %r20 }, [ %rd90 + 0 ];
	ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r9];
	st.global.v4.b32 [ %rd2 + 0 ], { %r5, %r6, %r7, %r8 };
"""


def test_ptx_loads_belong_to_the_argument_their_address_is_made_from() -> None:
    assert ptx_widths(PTX, ["q", "k", None, "v"]) == {"k": {16: 1}, "q": {128: 1}}


def test_ptx_copies_to_shared_memory_count_with_their_size() -> None:
    text = """
	ld.param.b64 	%rd1, [f_param_0];
	cp.async.cg.shared.global [ %r69 + 0 ], [ %rd1 + 0 ], 0x10, %r78;
	@%p3 cp.async.ca.shared.global [ %r93 + 0 ], [ %rd1 + 0 ], 0x4, %r68;
	cp.async.commit_group;
	cp.async.wait_group 0;
"""
    assert ptx_widths(text, ["k"]) == {"k": {32: 1, 128: 1}}


def test_a_pointer_carried_around_a_loop_keeps_its_origin() -> None:
    text = """
	ld.param.b64 	%rd1, [f_param_0];
$L__BB0_1:
	ld.global.v2.b32 { %r1, %r2 }, [ %rd3 + 0 ];
	add.s64 	%rd3, %rd2, 64;
	mov.b64 	%rd2, %rd3;
	mov.b64 	%rd2, %rd1;
"""
    assert ptx_widths(text, ["k"]) == {"k": {64: 1}}


def test_what_a_load_returns_is_no_address_of_its_argument() -> None:
    """A page number read from a table leads into the pool, which is another argument."""
    text = """
	ld.param.b64 	%rd1, [f_param_0];
	ld.param.b64 	%rd2, [f_param_1];
	ld.global.b64 { %rd3 }, [ %rd1 + 0 ];
	add.s64 	%rd4, %rd2, %rd3;
	ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd4 + 0 ];
"""
    assert ptx_widths(text, ["table", "k"]) == {"k": {128: 1}, "table": {64: 1}}


LLVM = """
define amdgpu_kernel void @f(ptr addrspace(1) inreg %0, ptr addrspace(1) inreg %1, i32 %2) {
  %4 = getelementptr bfloat, ptr addrspace(1) %0, i32 %2
  %5 = load <8 x bfloat>, ptr addrspace(1) %4, align 16
  %6 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %1, i16 0)
  %7 = tail call <4 x i32> @llvm.amdgcn.raw.ptr.buffer.load.v4i32(ptr addrspace(8) %6, i32 %2)
  %8 = tail call i16 @llvm.amdgcn.raw.ptr.buffer.load.i16(ptr addrspace(8) %6, i32 %2)
  %9 = load <4 x float>, ptr addrspace(3) null, align 16
}
"""


def test_llvm_loads_and_buffer_loads_belong_to_their_argument() -> None:
    assert llvm_widths(LLVM, ["q", "k", None]) == {"k": {16: 1, 128: 1}, "q": {128: 1}}


def test_nvidia_instructions_by_kind() -> None:
    names = [
        "LDG.E.128", "LDG.E.64.CONSTANT", "LDG.E", "LDGSTS.E.BYPASS.128", "LDGSTS.E", "LDGDEPBAR",
        "LDS.128", "HMMA.16816.F32.BF16", "HGMMA.64x64x16.F32", "UTCHMMA", "IMAD", "LDL.64", "STL",
        "UBLKCP", "LDG.E.ENL2.256",
    ]  # fmt: skip
    assert nvidia.counts(names) == {
        "instructions": 15,
        "wide_loads": 4,
        "narrow_loads": 3,
        "async_copies": 3,
        "local_accesses": 2,
    }
    assert nvidia.tensor_core(names) == {"wgmma": 1, "tcgen05": 1, "mma": 1}


def test_code_of_a_cubin_is_its_one_text_section() -> None:
    def elf(sections: list[tuple[str, bytes]]) -> bytes:
        names = b"\0" + b"".join(name.encode() + b"\0" for name, _ in sections) + b".shstrtab\0"
        body, headers, at = b"", [b"\0" * 64], 1
        for name, content in [*sections, (".shstrtab", names)]:
            place = 64 + len(body)
            headers.append(
                struct.pack("<IIQQQQ", at, 1, 0, 0, place, len(content)).ljust(64, b"\0")
            )
            at += len(name) + 1
            body += content
        head = bytearray(64)
        struct.pack_into("<Q", head, 40, 64 + len(body))
        struct.pack_into("<HHH", head, 58, 64, len(headers), len(headers) - 1)
        return bytes(head) + body + b"".join(headers)

    assert nvidia.code(elf([(".nv.info", b"xx"), (".text._attend", b"code")])) == b"code"
    with pytest.raises(HarnessError, match="holds 2 functions"):
        nvidia.code(elf([(".text.a", b"1"), (".text.b", b"2")]))


ASSEMBLY = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	s_load_dwordx8 s[8:15], s[0:1], 0x0
	buffer_load_dwordx4 v[2:5], v1, s[4:7], 0 offen
	global_load_dword v6, v[2:3], off       ; scratch_load in a comment
	buffer_load_ushort v7, v1, s[4:7], 0 offen
	v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]
	s_nop 1
	scratch_store_dword off, v1, s32
	.amdgpu_metadata
    .private_segment_fixed_size: 8
    .vgpr_count:     157
    .vgpr_spill_count: 1
	.end_amdgpu_metadata
"""


def test_amd_assembly_by_kind() -> None:
    names = amd.instructions(ASSEMBLY)
    assert amd.counts(names) == {
        "instructions": 6,
        "wide_loads": 1,
        "narrow_loads": 2,
        "async_copies": 0,
        "local_accesses": 1,
    }
    assert amd.tensor_core(names) == {"mfma": 1}
    told = amd.resources(ASSEMBLY)
    assert told["vgpr_count"] == 157
    assert amd.spill_bytes(told) == 8


@pytest.mark.parametrize(
    ("target", "registers", "shared", "warps", "expected"),
    [
        # CUDA's occupancy calculator: 168 registers leave room for 12 warps of 32 threads.
        ("sm_90", 168, 39168, 4, (12 / 64, "registers")),
        ("sm_80", 32, 0, 4, (1.0, "warps")),
        ("sm_80", 32, 100 * 1024, 4, (4 / 64, "shared memory")),
        ("sm_89", 64, 0, 8, (32 / 48, "registers")),
        ("sm_90", 16, 0, 1, (32 / 64, "blocks")),
        ("sm_90", 255, 233000, 4, (0.0, "shared memory")),
        # 512 registers a lane: 3 waves of 157 (given as 160) a SIMD, 4 SIMDs.
        ("gfx942", 157, 1024, 4, (12 / 32, "registers")),
        ("gfx942", 157, 33024, 4, (4 / 32, "shared memory")),
    ],
)
def test_occupancy(
    target: str, registers: int, shared: int, warps: int, expected: tuple[float, str]
) -> None:
    assert occupancy(TARGETS[target], registers, shared, warps) == expected
