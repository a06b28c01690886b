"""What is read from the code that Inductor writes."""

from __future__ import annotations

from air_aclgraph.fused._region import KERNEL

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
