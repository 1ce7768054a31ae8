// Small problems that together use every feature of the vocabulary.
#pragma once

namespace knobwise {

inline constexpr const char* kSmallProblems[] = {
    "conv2d n=3 c=5 h=19 w=17 k=7 r=3 s=3 bias",
    "conv2d n=2 c=3 h=40 w=37 k=24 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=2 c=8 h=18 w=20 k=70 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv2d n=2 c=8 h=18 w=20 k=150 r=1 s=2 stride=1x2 dilation=2x1 pad=0x1",
    "conv2d n=2 c=12 h=9 w=11 k=12 r=3 s=3 pad=1 groups=12 bias | relu",
    "conv2d n=2 c=12 h=9 w=11 k=36 r=3 s=3 pad=1 groups=4 layout=nhwc | silu | residual",
    "conv2d n=3 c=4 h=9 w=9 k=8 r=3 s=3 | residual | mish | mul 1.5 | add 1 | sub 0.25 | sigmoid | tanh",
    "conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 | gelu | hardswish | clamp -0.25 0.5",
    "conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 layout=nhwc | mean height | max channel | sum width",
    "conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 | instance_norm eps=1e-5 affine",
    "conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 dtype=f16 layout=nhwc bias | instance_norm eps=1e-5",
    "conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 dtype=bf16 bias | group_norm groups=4 eps=1e-3 affine | relu | "
    "residual",
    "conv3d n=3 c=3 d=7 h=8 w=9 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv3d n=2 c=4 d=6 h=7 w=8 k=6 t=2 r=3 s=1 pad=1 groups=2 layout=nhwc | max depth | softmax channel",
    "conv1d n=3 c=16 w=100 k=32 s=3 pad=1 | group_norm groups=8 eps=1e-5 affine",
};

/// The five problems that drive the project.
inline constexpr const char* kReferenceProblems[] = {
    "conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv3d n=128 c=3 d=24 h=32 w=32 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7",
    "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine",
};

}  // namespace knobwise
