#!/usr/bin/env python3
"""Writes search_spaces/cuda_implicit_gemm_sm90.json, the space of the CUDA family implicit_gemm_sm90.

T1 has no names for derived figures; this file does. After a change here:
    search_spaces/cuda_implicit_gemm_sm90.py > search_spaces/cuda_implicit_gemm_sm90.json
The figures follow kernels/cuda/implicit_gemm_sm90_geometry.h; that of shared memory is an upper bound.
A test compares the two.
"""
import sys

sys.dont_write_bytecode = True

import t1_writer

# Figures of a configuration, as expressions: CE elements of a chunk, SP terms of an operand, PL planes of the staged input, RP pitch of a
# row, COL columns of a warpgroup, PP pitch of a plane, KS instructions of a unit and term, STAGE bytes of a stage, OUT bytes for the
# output, WG warpgroups that multiply, UNITS of work of a tile, TILES of a sample.
CD=lambda a,b: f'(-(-({a}) // ({b})))'
CE='(4 if precision in ["tf32", "tf32x3"] else 8)'
SP='(2 if precision in ["fp16x3", "bf16x3", "tf32x3"] else 1)'
PL=CD('input_channels_per_step',CE)
RP='((tile_w + (s - 1) * dilation_w + 3) // 2 * 2)'
COL=f'(tile_w // column_groups if column_groups > 1 else {CD(f"(tile_h - 1) * {RP} + tile_w","8")} * 8)'
# Entries that rounding adds at most: 7 to a plane, and to each copy of the copy engine.
ROUNDED="((7 if input_copies == 'threads' else 8 * (-(-(tile_w + (s - 1) * dilation_w) // 256)) - 1) if layout == 'nhwc' else 0)"
PP=f"(max(tile_h * {RP}, {COL} * column_groups + (s - 1) * dilation_w + 1) + {ROUNDED})"
KS=CD(f's * {PL}','2')
STAGE=f'({SP} * ({KS} * 2 * channels_per_block + {PL} * {PP}) * 16 + 128)'
OUT=f'(channels_per_block // 16 * column_groups * 16 * (min(64, {COL}) + 8) * dtype_bytes)'
SHARED=f'(128 + stages * {STAGE} + {OUT} + (8 * channels_per_block * (column_groups + 1) if epilogue_norm_channels else 0))'
WG='(channels_per_block // 64 * column_groups)'
THREADS=f'({WG} * 128 + 128)'
UNITS=f'({CD("c_per_group","input_channels_per_step")} * t * r)'
TILES='(od * (-(-oh // tile_h)) * (-(-ow // tile_w)))'
# A norm over a long row: the fewest blocks a cluster, so that all clusters are on the device at once.
LONG='(epilogue_norm_channels and oh * od == 1 and ow > 256 and -(-ow // 512) * 512 <= 1.15 * ow)'
# The copy engine can bring the input, but for some groups.
ENGINE="(layout == 'nhwc' and dtype != 'f32' and c % 8 == 0)"
# Long reductions: wide tiles. Three products of fp32 leave room for two stages.
DEEP='(c_per_group * t * r * s >= 1024 and not epilogue_norm_channels)'
knobs=[
 ('tile_w','int',"[v for v in range(1, 513) if v == ow or v in [32, 64, 128, 256, 512] and v < 1.5 * ow and (-(-ow // v) * v <= 1.15 * ow) or v in [8, 16] and v >= ow or ow > 256 and v in [-(-(-(-ow // m)) // 8) * 8 for m in range(-(-ow // 256), -(-ow // 256) + 3)]]",f"512 if {LONG} else ow if ({DEEP} and ow > 128 or {ENGINE} and not epilogue_norm_channels) and ow <= 256 else max([v for v in [32, 64, 128, 256] if -(-ow // v) * v <= 1.15 * ow] + [min(ow, 128) if ow <= 256 else 1])"),
 ('tile_h','int',"[v for v in range(1, min(oh, 32) + 1) if v in [1, 2, 4, 8, 16, 32] or oh <= 16]",f"max([1] + [v for v in [2, 4] if {ENGINE} and not epilogue_norm_channels and v <= oh and v * (-(-oh // v)) <= 1.15 * oh and v * ow + 8 * v <= 256])"),
 ('channels_per_block','int',"[v for v in [64, 128, 192] if -(-k_per_group // v) * v <= max(1.34 * k_per_group, k_per_group + 63)]",f"64 if {LONG} else 128"),
 ('column_groups','int',"[1, 2]",f"2 if {LONG} else 1"),
 ('precision','string',"['bf16x3', 'fp16x3', 'tf32x3', 'fp16', 'bf16', 'tf32'] if dtype == 'f32' else ['bf16'] if dtype == 'bf16' else ['fp16']",None),
 ('input_channels_per_step','int',"[v for v in [4, 8, 16, 32, 64] if v < c_per_group] + [c_per_group if c_per_group <= 64 else 64]","16"),
 ('stages','int',"[2, 3, 4, 6, 8]",f"4 if {ENGINE} or {DEEP} and dtype != 'f32' else 2"),
 ('tiles_per_block','int',"[1, 2, 4, 8, 16]","1"),
 ('grid_order','string',f"['positions_first', 'channels_first'] if epilogue_norm_channels or {DEEP} else ['channels_first', 'positions_first']",None),
 ('min_blocks','int',"[1, 2, 3]","1"),
 ('input_copies','string',f"['engine', 'threads'] if {ENGINE} else ['threads']",None),
]
cons=[
 (f"{COL} <= 256 and (column_groups == 1 or tile_h == 1 and tile_w % 16 == 0 and tile_w >= 128)","columns of an instruction"),
 (f"{WG} <= 3","warpgroups of a block"),
 (f"tile_h * tile_w >= 0.8 * {COL} * column_groups or {COL} <= 16 or oh * ow <= 4096","few columns are dropped"),
 (f"{COL} >= 64 or {COL} >= oh * ow","enough columns for what the weights cost"),
 ("tile_h * (-(-oh // tile_h)) <= 1.15 * oh or tile_h == 1 or oh * ow <= 4096","few idle rows"),
 (f"{PL} == 1 or {PL} % 2 == 0","two chunks of an instruction are a fixed distance apart"),
 (f"input_channels_per_step >= c_per_group or input_channels_per_step % {CE} == 0","steps of whole chunks"),
 (f"input_copies == 'threads' or groups == 1 or c_per_group % (8 * {PL}) == 0","the copy engine brings whole chunks of channels of the group"),
 ("input_copies == 'threads' or tile_h == 1 or tile_w + (s - 1) * dilation_w <= 256 and stride_h <= 8 and (tile_h - 1) * stride_h < 256","the copy engine takes boxes of at most 256"),
 (f"{SHARED} <= device_shared_bytes_per_block","operands fit in shared memory"),
 (f"{COL} // 2 + 56 <= (192 if {WG} == 2 else 152 if {WG} == 3 else 255)","the sums fit in registers"),
 (f"min_blocks == 1 or {WG} == 1 and min_blocks * ({SHARED} + 1024) <= device_shared_bytes_per_multiprocessor and {COL} // 2 + 28 <= 65536 // (min_blocks * {THREADS}) // 8 * 8","as many blocks as registers and shared memory allow"),
 (f"min_blocks > 1 or {WG} > 1 or 2 * ({SHARED} + 1024) > device_shared_bytes_per_multiprocessor or {COL} // 2 + 28 > 65536 // (2 * {THREADS}) // 8 * 8","registers for several blocks are used for them"),
 (f"stages <= max(2, {UNITS} * tiles_per_block)","no more stages than units"),
 (f"stages >= 8 or (stages + 2) * {STAGE} > 60000 or stages == max([2] + [v for v in [3, 4, 6, 8] if v <= {UNITS} * tiles_per_block])","room for more stages is used"),
 (f"tiles_per_block <= {TILES} and (tiles_per_block == 1 or not epilogue_norm_channels)","no more tiles a block than there are; one with a norm"),
 (f"not epilogue_norm_channels or {TILES} <= 8 and (channels_per_block % epilogue_norm_channels == 0 or channels_per_block >= k_per_group)","a cluster holds whole groups of the norm"),
 (f"tiles_per_block == 1 or n * {TILES} * groups * (-(-k_per_group // channels_per_block)) >= tiles_per_block * device_multiprocessors","a block for every multiprocessor"),
 ("grid_order == 'positions_first' or (channels_per_block < k_per_group or groups > 1) and not epilogue_norm_channels","the order matters only where blocks differ in channels; the blocks of a norm are neighbours"),
 (f"n * groups * (-(-k_per_group // channels_per_block)) * {TILES} < 2147483648","a grid has at most 2^31 - 1 blocks"),
]

t1_writer.write("implicit_gemm_sm90", knobs, cons)
