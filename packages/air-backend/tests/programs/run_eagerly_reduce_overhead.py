"""The run-eagerly document's second program, with a model in the place it leaves open."""

import torch
import torch_npu, torchair

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).npu()

config = torchair.CompilerConfig()
config.mode = "reduce-overhead"
config.debug.run_eagerly = True
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)

x = torch.randn(2, 16).npu()
with torch.no_grad():
    torch.testing.assert_close(opt_model(x), model(x))
print("equal", torchair.__name__)
