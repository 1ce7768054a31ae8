// Problems whose epilogues no kernel fuses whole.
#pragma once

namespace knobwise {

inline const char* const kUnfusedProblems[] = {
    "conv2d n=2 c=8 h=11 w=13 k=24 r=3 s=3 bias | residual | residual | relu",
    "conv2d n=2 c=4 h=12 w=15 k=20 r=3 s=3 pad=1 | relu | max channel | mul 2",
    "conv2d n=1 c=16 h=9 w=14 k=300 r=1 s=1 bias | softmax channel",
    "conv3d n=2 c=3 d=7 h=8 w=9 k=16 t=3 r=3 s=3 bias | min depth | mean height | softmax channel",
    "conv2d n=2 c=8 h=70 w=66 k=16 r=3 s=3 | group_norm groups=4 eps=1e-5 affine | relu | residual",
    "conv2d n=2 c=8 h=40 w=36 k=16 r=3 s=3 layout=nhwc bias | instance_norm eps=1e-5 affine | sum width",
    "conv1d n=3 c=8 w=100 k=16 s=5 | instance_norm eps=1e-5 | instance_norm eps=1e-5 affine | tanh",
    "conv2d n=1 c=256 h=8 w=8 k=48 r=3 s=3 pad=1 bias | relu | max height | softmax channel",
    "conv2d n=1 c=64 h=10 w=12 k=320 r=3 s=3 pad=1 bias | silu | group_norm groups=32 eps=1e-5 affine | relu",
};

}  // namespace knobwise
