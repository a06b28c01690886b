"""What is read from the code that Inductor writes."""

from __future__ import annotations

import pytest
import torch

from air_aclgraph.fused import _region
from air_aclgraph.fused._region import KERNEL, Ground, Region

WRITTEN = """
async_compile = AsyncCompile()
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], '''
#include "header.h"
''')
triton_poi_fused_relu_1 = async_compile.triton('triton_poi_fused_relu_1', '''
import triton
@triton.jit
def triton_poi_fused_relu_1(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
''', device_str='cuda')
async_compile.wait(globals())
del async_compile
"""


def test_kernels_have_the_names_that_the_code_gives_them() -> None:
    assert KERNEL.findall(WRITTEN) == ["cpp_fused_add_0", "triton_poi_fused_relu_1"]


def test_code_for_sizes_that_come_no_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_region, "MADE", 3)
    inner = torch.fx.symbolic_trace(lambda x: ((x * 2 + 1),))
    region = Region("region_0", inner, Ground(is_late=lambda: True))
    for rows in (2, 3, 4, 5, 6, 2):
        assert torch.equal(region(torch.ones(rows))[0], torch.full((rows,), 3.0))
    assert len(region.made) == 3
