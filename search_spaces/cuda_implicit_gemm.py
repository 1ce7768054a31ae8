#!/usr/bin/env python3
"""Writes search_spaces/cuda_implicit_gemm.json, the space of the CUDA family implicit_gemm.

T1 has no names for derived figures; this file does. After a change here:
    search_spaces/cuda_implicit_gemm.py > search_spaces/cuda_implicit_gemm.json
The figures follow kernels/cuda/implicit_gemm_geometry.h; that of shared memory is an upper bound.
A test compares the two.
"""
import sys

sys.dont_write_bytecode = True

import t1_writer

# Figures of a configuration, as expressions: VE elements of a vector, SP terms of an operand, SETS sums of each output, POS positions of a block, WG true with
# warpgroup instructions, WALK true if depth is walked by its inputs, RW warps along the positions, WARPS that multiply, ACC sums of a
# lane, MT instructions of a warpgroup along the positions, FEED registers of its operands, REGS registers of a lane that multiplies
# and STREGS of one that stages (88 or 56 if warpgroups share them out), BREGS of a block, ROWV vectors of a row of taps, PLANES of the
# staged input, KST instructions of a step, EB bytes of an entry, UNIT elements between entries, FETCH the most that one load may fetch, SW SH SD staged extents, CSTEPS steps
# over the channels, IBUF and WBUF buffers, WSTEP bytes of a step's weights, TILES of a sample.
VE='(2 if precision in ["tf32", "tf32x3"] else 4)'
SP='(2 if precision in ["fp16x3", "bf16x3", "tf32x3", "fp16_e5m2"] else 1)'
POS='(tile_d * tile_h * tile_w)'
CDIV=lambda a,b: f'(-(-({a}) // ({b})))'
WG='instruction == "wgmma"'
WALK='depth_walk == "inputs"'
CSTEPS=CDIV('c_per_group','input_channels_per_step')
SETS=f'(2 if precision == "fp16_e5m2" and ({WALK} or {CSTEPS} > 1) else 1)'
RW0=CDIV('tile_d * tile_h * tile_w','warp_positions')
RW=f'({CDIV(RW0,"4")} * 4 if {WG} else {RW0})'
WARPS=f'({RW} * (channels_per_block // warp_channels))'
ACC='(warp_positions * warp_channels // 32)'
MT='(warp_positions // 16)'
ROWV=f'({CDIV("s",VE)} if gather == "taps" else s)'
PLANES=f'(input_channels_per_step if gather == "taps" else {CDIV("input_channels_per_step",VE)})'
KST=CDIV(f'{PLANES} * (1 if {WALK} else t) * r * {ROWV}','4')
FIRST=f'(precision == "fp16_e5m2" and {SETS} == 1)'
OPS=f'({MT} * (1 if {FIRST} else {SP}))'
FEED=f'(12 * {OPS} if {OPS} <= 2 else 32 if {OPS} <= 4 else 4 * {OPS})'
REGS=f'({ACC} * (t * {SETS} + 1 if {WALK} else 1 + {SETS} if epilogue_reduce_depth else {SETS}) + ({FEED} + 12 if {WG} else warp_positions // 8 * 2 * {SP} + 8 * {SP}) + 28 + (warp_channels // 4 if {FIRST} else 0) + (warp_channels // 8 * 3 + 16 if epilogue_norm_channels else 0))'
STREGS=f'({REGS} if not ({WG}) or producer_warps == 0 else 88 if producer_warps <= 4 and {WARPS} <= 8 else 56)'
BREGS=f'(32 * ({WARPS} * {REGS} + producer_warps * {STREGS}))'
EB=f'(8 * {SP})'
# unit = gcd(stride_w, VE) for VE in 2, 4
UNIT=f'(max([u for u in [1, 2, 4] if stride_w % u == 0 and {VE} % u == 0]) if gather == "taps" else 1)'
SW=f'((((tile_w - 1) * stride_w + ({ROWV} - 1) * {VE}) // {UNIT} + 1) if gather == "taps" else -(-((vector_width - pad_w % vector_width) % vector_width + (tile_w - 1) * stride_w + (s - 1) * dilation_w + 1) // vector_width) * vector_width)'
FETCH=f"(max([v for v in [1, 2, 4] if v == 1 or layout == 'nchw' and w % v == 0 and (tile_w >= ow or tile_w * stride_w % v == 0) and (gather == 'channels' or pad_w % v == 0 and {UNIT} % v == 0)]))"
SH='((tile_h - 1) * stride_h + (r - 1) * dilation_h + 1)'
SD='(((od if epilogue_reduce_depth else tile_d) - 1) * stride_d + (t - 1) * dilation_d + 1)'
ENTRIES=f'({PLANES} * ({SD} * {SH} * ({SW} + 4) + 8))'
IBUF=f'min(stages, {CDIV(CSTEPS, "split_k")} * tiles_per_block)'
RB='(4 if split_k > 1 else dtype_bytes)'
WSTEP=f'({KST} * channels_per_block * (2 * t - 1 if {WALK} else 1) * 4 * {EB})'
WBUF=f'({CSTEPS} if weights_source == "resident" else (1 if {CSTEPS} == 1 else {IBUF}) if weights_source == "shared" else 0)'
SHARED=f'(16 * {KST} + 256 + {WBUF} * {WSTEP} + {IBUF} * ({ENTRIES} * {EB} + 128) + (4 * channels_per_block * ({RW} + 2) if epilogue_norm_channels else 0) + {WARPS} * {RB} * (warp_positions * (store_channels + 8) if layout == "nhwc" else 2 * store_channels * (warp_positions + 2) if {WG} else store_channels * (warp_positions + 8)))'
TILES='((1 if epilogue_reduce_depth else -(-od // tile_d)) * (-(-oh // tile_h)) * (-(-ow // tile_w)))'
# Large filters over few channels: the weights of a step leave no room for a second block.
DEEP='(c_per_group <= 8 and c_per_group * t * r * s >= 256)'
# Where warpgroups do best with them: one tile after another, all weights in shared memory.
DEEPWG=f'({DEEP} and device_compute_capability == 90 and k_per_group % 8 == 0 and k_per_group <= 128)'
# Few vectors for many outputs, which the stores limit: warpgroups too, for the longest runs.
THINWG='(device_compute_capability == 90 and k_per_group % 8 == 0 and k_per_group >= 32 and k_per_group <= 128 and c_per_group * t * r * s <= 128 and c_per_group >= 4 and n * od * oh * ow >= 100000 and not (epilogue_reduce_depth or epilogue_softmax or epilogue_norm_channels))'
# A reduction over depth: warpgroups that go through its inputs, all channels and depth taps in an instruction.
WALKABLE='epilogue_reduce_depth and t > 1 and stride_d == 1 and dilation_d == 1'
DEPTHWG=f'(device_compute_capability == 90 and {WALKABLE} and k_per_group % 8 == 0 and t * k_per_group <= 256)'
WGFIRST=f'({DEEPWG} or {THINWG} or {DEPTHWG})'
knobs=[
 ('instruction','string',f"['wgmma', 'mma'] if {WGFIRST} else ['mma', 'wgmma'] if device_compute_capability == 90 else ['mma']",None),
 ('depth_walk','string',f"['inputs', 'outputs'] if {DEPTHWG} else ['outputs', 'inputs'] if {WALKABLE} else ['outputs']",None),
 ('precision','string',"['bf16x3', 'fp16x3', 'tf32x3', 'fp16', 'bf16', 'tf32'] + (['fp16_e5m2'] if device_compute_capability == 90 else []) if dtype == 'f32' else ['bf16'] if dtype == 'bf16' else ['fp16']",None),
 ('gather','string',"['channels'] if c_per_group >= 3 and (c_per_group % 4 != 3 or s < 4) or dilation_w > 1 or s == 1 else ['taps'] if c_per_group <= 2 else ['taps', 'channels']",None),
 ('reduction_order','string',"['taps_outermost', 'channels_outermost']",None),
 ('tile_w','int',"[v for v in range(1, 1025) if v == ow and ow <= 256 or v in [16, 32, 64, 128, 256, 512, 1024] and v < 1.5 * ow and -(-ow // v) * v <= 1.1 * ow or v in [8, 16] and v >= ow or ow < 1024 and ow > 256 and v in [-(-(-(-ow // m)) // 4) * 4 for m in [2, 3, 4, 5, 6]]]","ow if ow <= 128 and oh * od > 1 else min([v for v in [32, 64, 128, 256] if -(-ow // v) * v <= 1.1 * ow] + [max(4, -(-ow // 4) * 4)]) if oh * od > 1 else min(128, max(4, -(-ow // 4) * 4))"),
 ('tile_h','int',"[v for v in range(1, min(oh, 16) + 1) if v in [1, 2, 4, 8, 16] or oh <= 16 and v == oh or v in [3, 6, 10] and oh % v == 0]","min(oh, 4 if ow < 100 else 2)"),
 ('tile_d','int',"[v for v in [1, 2, 4] if v == 1 or v <= od and not epilogue_reduce_depth]","1"),
 ('channels_per_block','int',"[v for v in range(16, 257, 8) if (v in [16, 32, 48, 64, 96, 128] or v == -(-k_per_group // 16) * 16 or v == -(-k_per_group // 8) * 8) and (v >= 32 or k_per_group < 32) and -(-k_per_group // v) * v <= max(1.2 * k_per_group, k_per_group + 15) and (not epilogue_softmax or v >= k)]",f"k_per_group if {WGFIRST} else 48 if {DEEP} and k_per_group % 48 == 0 else max([v for v in [16, 32, 48, 64, 96, 128] if -(-k_per_group // v) * v <= max(1.2 * k_per_group, k_per_group + 15)] + [v for v in range(16, 129, 16) if v == -(-k_per_group // 16) * 16])"),
 ('warp_positions','int',"[8, 16, 32, 64]",f"16 if {DEPTHWG} else 32"),
 ('warp_channels','int',"[v for v in range(16, 257, 8) if (v in [16, 32, 48, 64, 96, 128] or v <= 128 and v == -(-k_per_group // 16) * 16 or v == -(-k_per_group // 8) * 8) and (v >= 32 or k_per_group < 32)]",f"k_per_group if {WGFIRST} else 48 if {DEEP} and k_per_group % 48 == 0 and not epilogue_softmax else min([v for v in [32, 48, 64] if k_per_group % v == 0] + [-(-k_per_group // 16) * 16]) if not epilogue_softmax else -(-k // 16) * 16"),
 ('input_channels_per_step','int',"[v for v in [1, 4, 8, 16, 32, 64] if v < c_per_group and (v > 1 or c_per_group <= 4)] + [c_per_group]",f"c_per_group if {THINWG} else 8 if c_per_group > 8 else 1 if {DEEPWG} and c_per_group <= 4 else c_per_group"),
 ('tiles_per_block','int',"[1, 4, 16, 32, 64]",f"16 if {DEPTHWG} else 32 if {DEEPWG} else 64 if {THINWG} else 1"),
 ('split_k','int',"[v for v in [1, 2, 4, 8, 16, 32] if v == 1 or v <= c_per_group // 4]","1"),
 ('stages','int',"[1, 2, 3]",f"3 if {THINWG} and dtype != 'f32' else 2 if {WGFIRST} else 1"),
 ('producer_warps','int',"[0, 2, 4, 8]",f"8 if {THINWG} and dtype != 'f32' else 4 if {WGFIRST} else 0"),
 ('store_width','int',"[1, 2, 4, 8]","8"),
 ('store_channels','int',"[8, 16]",f"16 if {THINWG} and dtype == 'f32' else 8"),
 ('vector_width','int',"[1, 2, 4]","4"),
 ('weights_source','string',f"['resident', 'shared', 'global'] if {DEEPWG} else ['global', 'shared', 'resident'] if {DEEP} else ['shared', 'global', 'resident']",None),
 ('grid_order','string',"['positions_first', 'channels_first'] if epilogue_norm_channels else ['channels_first', 'positions_first']",None),
 ('unroll','int',"[1, 2, 4, 8]",f"1 if {DEEP} or {THINWG} or {DEPTHWG} else 2"),
 ('min_blocks','int',"[1, 2, 3, 4, 6, 8]","1"),
]
cons=[
 (f"not ({WALK}) or {WG} and channels_per_block == warp_channels and t * warp_channels <= 256", "sums of every depth tap in one instruction"),
 ("instruction == 'wgmma' or channels_per_block % 16 == 0 and warp_channels % 16 == 0 and warp_channels <= 128", "channels of an instruction"),
 ("instruction == 'mma' or warp_positions % 16 == 0 and weights_source != 'global' and warp_channels in [channels_per_block, channels_per_block // 2]", "positions of an instruction, its weights in shared memory"),
 (f"precision != 'fp16_e5m2' or {WG} and {KST} > 1", "e5m2 at its full rate, passes longer than what is loaded ahead"),
 (f"weights_source != 'resident' or tiles_per_block > 1 and {CSTEPS} > 1", "weights stay for several tiles"),
 ("channels_per_block % warp_channels == 0","whole warps of channels"),
 ("warp_channels == channels_per_block or not epilogue_softmax","a warp holds every channel of the softmax"),
 (f"{ACC} >= 32 or instruction == 'wgmma' or k_per_group * warp_positions <= 1024 or warp_channels >= k_per_group or od * oh * ow < 64 or {ACC} >= 8 and od * oh == 1 and ow <= 256 and k_per_group % 64 != 0","a warp computes enough for what it loads; short rows divide into few shapes of warps"),
 (f"{REGS} <= 250","the sums fit in registers"),
 (f"{WARPS} <= 16","threads of a block"),
 (f"instruction == 'mma' or warp_channels * (t if {WALK} else 1) // 2 + 30 <= 65536 // (32 * ({WARPS} + producer_warps))","an instruction's sums fit in the registers that the assembler gives every thread"),
 (f"{WARPS} >= 4 or k_per_group * od * oh * ow <= 65536 or epilogue_reduce_depth","warps of a block"),
 (f"min_blocks == max([1] + [v for v in [2, 3, 4, 6, 8] if v * {BREGS} <= 65536 and v * (0.95 * {SHARED} + 1024) <= device_shared_bytes_per_multiprocessor])","as many blocks as registers and shared memory allow"),
 (f"{BREGS} <= 65536","the registers of a multiprocessor"),
 (f"{SHARED} <= device_shared_bytes_per_block","operands fit in shared memory"),
 (f"{RW} * warp_positions <= (1.2 if {WG} else 1.15) * {POS} or {RW} == 1 and (warp_positions == 8 or {POS} == od * oh * ow)","few idle columns"),
 (f"store_width == max([v for v in [1, 2, 4, 8] if v * {RB} <= 16 and (k_per_group % v == 0 if layout == 'nhwc' else tile_h * ow % v == 0 and oh * ow % v == 0 if (tile_w == ow and (tile_d == 1 or tile_h == oh)) else tile_w % v == 0 and ow % v == 0)])","the widest stores that are aligned"),
 ("warp_channels % store_channels == 0", "channels that a warp collects before it writes them"),
 (f"vector_width == {FETCH} or vector_width == 2 and {FETCH} == 4 and gather == 'channels'","the widest fetches that are aligned, or half of them"),
 ("gather == 'channels' or input_channels_per_step <= 16","a plane for every channel"),
 (f"input_channels_per_step == c_per_group or gather == 'taps' or input_channels_per_step % {VE} == 0","steps of whole vectors"),
 ("input_channels_per_step == c_per_group or not epilogue_reduce_depth","every depth from one staging of the input"),
 (f"reduction_order == 'taps_outermost' or {PLANES} > 1 and t * r * {ROWV} > 1 and {KST} <= 64","the order matters only with several taps and planes"),
 ("(producer_warps > 0) == (stages > 1)","producers work a stage ahead"),
 (f"producer_warps in [0, 4, 8] if {WG} else producer_warps <= 4","registers pass between whole warpgroups"),
 (f"stages <= {CDIV(CSTEPS, 'split_k')} * tiles_per_block","no more stages than steps"),
 (f"tiles_per_block == 1 or stages > 1 and ({CSTEPS} == 1 or weights_source == 'resident') and not epilogue_norm_channels and tiles_per_block <= n * {TILES}","several tiles only to stage ahead"),
 (f"n * {TILES} * groups * (-(-k_per_group // channels_per_block)) > tiles_per_block // (2 if tiles_per_block >= 32 else 4) * device_multiprocessors or tiles_per_block == 1","more tiles a block only where it leaves fewer waves of blocks"),
 (f"split_k == 1 or tiles_per_block == 1 and not (epilogue_reduce_depth or epilogue_softmax or epilogue_norm_channels) and (split_k - 1) * (-(-{CSTEPS} // split_k)) < {CSTEPS}", "every part of the reduction has a step, and sums that the next kernel joins"),
 (f"split_k == 1 or n * {TILES} * groups * (-(-k_per_group // channels_per_block)) * split_k <= 4 * device_multiprocessors", "the reduction is split to fill the device"),
 (f"grid_order == 'positions_first' or (channels_per_block < k_per_group or groups > 1) and not epilogue_norm_channels","the order matters only where blocks differ in channels; a norm's blocks are neighbours"),
 (f"not epilogue_norm_channels or {TILES} <= (8 if device_compute_capability >= 90 else 1) and (channels_per_block % epilogue_norm_channels == 0 or channels_per_block >= k_per_group) and k_per_group % epilogue_norm_channels == 0","a cluster holds whole groups of the norm"),
 (f"weights_source != 'global' or {KST} * channels_per_block * 4 * {EB} > 16384 or {CSTEPS} > 1","few weights are staged"),
 (f"unroll == 1 or (not ({WG}) or {KST} > 12 and unroll == 2) and unroll < 2 * {KST} and unroll * {ACC} * (3 if {SP} == 2 else 1) <= 1600","the inner loop stays in the instruction cache"),
 (f"n * groups * (-(-k_per_group // channels_per_block)) * {TILES} * split_k < 2147483648","a grid has at most 2^31 - 1 blocks"),
]
# The order in which the space is bound: what prunes most comes first.
order=['instruction','depth_walk','tile_w','tile_h','tile_d','channels_per_block','warp_positions','warp_channels','precision','gather','input_channels_per_step','stages','producer_warps','tiles_per_block','split_k','weights_source','unroll','reduction_order','grid_order','store_width','store_channels','vector_width','min_blocks']
knobs=sorted(knobs,key=lambda k: order.index(k[0]))

t1_writer.write("implicit_gemm", knobs, cons)
