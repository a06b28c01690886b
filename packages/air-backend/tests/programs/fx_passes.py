"""The FX-pass document's program, with a model that has something to reinplace in the place it leaves open."""

import torch
import torch_npu, torchair


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 16))
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x, at):
        y = torch.relu(self.linear(x) + 1)
        self.cache.index_copy_(0, at, y)
        return self.cache.sum(0) * 2


model = Cache().npu()
reference = Cache().npu()
reference.load_state_dict(model.state_dict())

config = torchair.CompilerConfig()
# 配置图执行模式
config.mode = "reduce-overhead"
# FX Pass配置开关
config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = False
config.debug.aclgraph.disable_reinplace_input_mutated_ops_pass = False
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torch.compile(model, backend=npu_backend)

x, at = torch.randn(2, 16).npu(), torch.tensor([1, 5]).npu()
with torch.no_grad():
    for _ in range(3):
        torch.testing.assert_close(opt_model(x, at), reference(x, at))
        torch.testing.assert_close(model.cache, reference.cache)
print("equal", torchair.__name__)
