"""The static-kernel document's program, with a model in the place it leaves open."""

import sys

import torch
import torch_npu, torchair

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).npu()
directory = sys.argv[1]

config = torchair.CompilerConfig()
# 配置图执行模式
config.mode = "reduce-overhead"
# 开启静态Kernel编译
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = directory
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)

x = torch.randn(2, 16).npu()
with torch.no_grad():
    for _ in range(2):
        torch.testing.assert_close(opt_model(x), model(x))
print("equal", torchair.__name__)
