"""The run-eagerly document's third program: run-eagerly with static kernels, in reduce-overhead."""

import sys

import torch
import torch_npu, torchair

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).npu()
directory = sys.argv[1]

config = torchair.CompilerConfig()
# 开启run-eagerly
config.debug.run_eagerly = True
# 采用aclgraph模式
config.mode = "reduce-overhead"
# 开启静态Kernel编译
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = directory
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)

x = torch.randn(2, 16).npu()
with torch.no_grad():
    torch.testing.assert_close(opt_model(x), model(x))
print("equal", torchair.__name__)
