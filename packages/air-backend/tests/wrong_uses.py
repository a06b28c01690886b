"""Wrong uses of AIR, one function each; the line that is wrong ends in `# here`."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, fx, nn
from torch.distributed import _functional_collectives as functional

import air_backend as air
from air_backend import CompilerConfig
from air_geir.converters import unregister

COMMUNICATION: Any = dist  # torch does not export all that its documents name
X = torch.randn(4, 4)
LIBRARY = torch.library.Library("wrong_uses", "DEF")
LIBRARY.define("opaque(Tensor x) -> Tensor")
LIBRARY.impl("opaque", lambda x: x + 1, "CPU")
LIBRARY.impl("opaque", lambda x: torch.empty_like(x), "Meta")


def run(function: Callable[..., Any], *args: Any, mode: str = "reduce-overhead", **options: Any) -> Any:
    """Compiles a function and calls it once; what cannot be compiled is to be an error."""
    given = {
        "mode": mode,
        "air.uncapturable": "error",
        "air.unsupported": "error",
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    return torch.compile(function, backend="air", options=given, fullgraph=True, dynamic=False)(
        *(args or (X,))
    )


@contextlib.contextmanager
def group_of_one() -> Iterator[None]:
    """A process group with this process alone."""
    dist.init_process_group("gloo", store=COMMUNICATION.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


# Options ----------------------------------------------------------------------------------------------------


def mode_that_does_not_exist() -> None:
    config = CompilerConfig()
    config.mode = "turbo"  # type: ignore[assignment]  # here


def misspelt_option() -> None:
    config = CompilerConfig()
    config.debug.run_eager = True  # type: ignore[attr-defined]  # here


def text_for_a_switch() -> None:
    config = CompilerConfig()
    config.debug.run_eagerly = "yes"  # type: ignore[assignment]  # here


def truth_value_for_a_number() -> None:
    config = CompilerConfig()
    config.debug.aclgraph.static_capture_size_limit = True  # here


def number_out_of_range() -> None:
    config = CompilerConfig()
    config.debug.aclgraph.static_capture_size_limit = 0  # here


def value_for_a_group() -> None:
    config = CompilerConfig()
    config.debug = True  # type: ignore[assignment]  # here


def folder_that_is_not_there() -> None:
    config = CompilerConfig()
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = "/no/such/folder"  # here
    config.mode = "reduce-overhead"
    torch.compile(lambda x: x + 1, backend=air.get_npu_backend(compiler_config=config))(X)


def format_of_dump_that_does_not_exist() -> None:
    config = CompilerConfig()
    config.debug.graph_dump.type = "json"  # type: ignore[assignment]  # here


def pass_that_is_no_function() -> None:
    config = CompilerConfig()
    config.post_grad_custom_pre_pass = "fuse"  # type: ignore[assignment]  # here


def misspelt_option_of_torch_compile() -> None:
    torch.compile(lambda x: x + 1, backend="air", options={"clone_outputs": True})(X)  # here


def options_that_are_no_mapping() -> None:
    options: Any = ["mode"]
    torch.compile(lambda x: x + 1, backend="air", options=options)(X)  # here


def options_for_get_npu_backend() -> None:
    options: Any = {"mode": "reduce-overhead"}
    air.get_npu_backend(compiler_config=options)  # here


def mode_of_torch_compile_that_does_not_exist() -> None:
    torch.compile(lambda x: x + 1, backend="air", mode="turbo")(X)  # here


def option_of_torch_compile_with_a_wrong_value() -> None:
    torch.compile(lambda x: x + 1, backend="air", options={"capture_limit": -3})(X)  # here


def function_for_compile_fx() -> None:
    air.compile_fx(lambda x: x)  # type: ignore[arg-type]  # here


# Streams ----------------------------------------------------------------------------------------------------


def graph_break_in_a_stream_scope() -> None:
    def function(x: Tensor) -> Tensor:
        with air.scope.npu_stream_switch("1"):
            x = x + 1
            torch._dynamo.graph_break()  # here
            return x * 2

    run(function)


def wait_for_an_event_that_nobody_records() -> None:
    event = air.ops.npu_create_tagged_event("wrong: unmet")

    def function(x: Tensor) -> Tensor:
        with air.scope.npu_stream_switch("1"):
            air.ops.npu_tagged_event_wait(event)  # here
            return x + 1

    run(function, air__sync="error")


def use_on_another_stream_without_a_wait() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        with air.scope.npu_stream_switch("1"):
            return y * 2  # here

    run(function, air__sync="error")


def event_that_is_a_text() -> None:
    event: Any = "66"
    air.ops.npu_tagged_event_record(event)  # here


def tag_that_is_a_number() -> None:
    air.scope.npu_stream_switch(1)  # type: ignore[arg-type]  # here


def priority_that_is_a_text() -> None:
    air.scope.npu_stream_switch("1", "high")  # type: ignore[arg-type]  # here


def priority_where_there_are_none() -> None:
    def function(x: Tensor) -> Tensor:
        with air.scope.npu_stream_switch("1", -1):  # here
            return x + 1

    run(function, air__sync="off", air__stream_priority="error")


def two_priorities_for_one_stream() -> None:
    def function(x: Tensor) -> Tensor:
        with air.scope.npu_stream_switch("1", -1):
            x = x + 1
        with air.scope.npu_stream_switch("1", -2):  # here
            return x * 2

    run(function, air__sync="off")


def priority_for_the_main_stream() -> None:
    def function(x: Tensor) -> Tensor:
        with air.scope.npu_stream_switch("default", -1):  # here
            return x + 1

    run(function)


def core_limit_where_there_are_no_cores() -> None:
    def function(x: Tensor) -> Tensor:
        with air.scope.limit_core_num(4, 8):  # here
            return x + 1

    run(function)


def core_limit_of_nothing() -> None:
    air.scope.limit_core_num(0, 8)  # here


def wait_for_nothing() -> None:
    air.ops.wait([])  # here


def dependency_that_is_no_tensor() -> None:
    air.scope.npu_wait_tensor(X, 1)  # type: ignore[arg-type]  # here


def tagged_event_in_max_autotune() -> None:
    event = air.ops.npu_create_tagged_event("wrong: mode")

    def function(x: Tensor) -> Tensor:
        y = x + 1
        air.ops.npu_tagged_event_record(event)  # here
        return y

    run(function, mode="max-autotune")


def two_collectives_in_no_order() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        a = functional.all_reduce(x, "sum", COMMUNICATION.group.WORLD)
        with air.scope.npu_stream_switch("1"):
            b = functional.all_reduce(y, "sum", COMMUNICATION.group.WORLD)  # here
        return a, b

    with group_of_one():
        run(function, X, X.clone(), air__sync="error")


def level_of_determinism_that_does_not_exist() -> None:
    air.scope.deterministic(9)  # here


# What the host would have to look at -------------------------------------------------------------------------


def shape_that_depends_on_data() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.nonzero(x)  # here

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run(function)


def number_read_from_a_tensor() -> None:
    def function(x: Tensor) -> Tensor:
        return x.new_zeros(int(x.sum().item()))  # here

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run(function)


def branch_on_data() -> None:
    def function(x: Tensor) -> Tensor:
        if x.sum() > 0:  # here
            return x + 1
        return x - 1

    run(function)


def mask_as_an_index() -> None:
    def function(x: Tensor) -> Tensor:
        return x[x > 0]  # here

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run(function)


# Operators ----------------------------------------------------------------------------------------------------


def operator_without_a_converter() -> None:
    def function(x: Tensor) -> Any:
        return torch.ops.wrong_uses.opaque(x) * 2  # here

    run(function, mode="max-autotune")


def reduction_that_has_no_operator() -> None:
    def function(x: Tensor) -> Any:
        return functional.all_reduce(x, "band", COMMUNICATION.group.WORLD)  # here

    with group_of_one():
        run(function, X.int(), mode="max-autotune")


def asynchronous_collective_in_a_graph() -> None:
    from air_backend._collectives import PATCHED

    def function(x: Tensor) -> Tensor:
        y = x + 1
        dist.broadcast(y, 0, async_op=True)  # here
        return y

    with group_of_one(), contextlib.ExitStack() as undone:
        for name in PATCHED:
            undone.callback(setattr, dist, name, getattr(dist, name))
        air.patch_for_hcom()
        run(function)


def converter_that_does_not_fit_its_operator() -> None:
    from air_geir import Context, Value, converts

    @converts(torch.ops.wrong_uses.opaque.default)  # here
    def opaque(ctx: Context, y: Value) -> Value:
        """opaque(Tensor y) -> Tensor"""
        return y


def second_converter_for_an_operator() -> None:
    def convert(self: Any, meta_outputs: Any = None) -> Any:
        return self

    rare = torch.ops.aten.special_bessel_j1.default
    air.register_fx_node_ge_converter(rare)(convert)
    try:
        air.register_fx_node_ge_converter(rare)(convert)  # here
    finally:
        unregister(rare)


def pass_that_fails() -> None:
    def divide(gm: fx.GraphModule, example_inputs: Any, config: Any) -> None:
        raise ZeroDivisionError("the pass divides by zero")  # here

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.post_grad_custom_pre_pass = divide
    torch.compile(lambda x: x + 1, backend=air.get_npu_backend(compiler_config=config))(X)


# Everything else ---------------------------------------------------------------------------------------------


def output_read_after_it_was_overwritten() -> None:
    def function(x: Tensor) -> Tensor:
        return x + 1  # here

    compiled = torch.compile(
        function, backend="air", options={"mode": "reduce-overhead", "air.outputs": "guarded"}
    )
    first = compiled(X)
    compiled(X)
    first.sum()


def gears_of_a_number() -> None:
    air.inference.set_dim_gears(3, {0: [1, 2]})  # type: ignore[arg-type]  # here


def gears_for_an_axis_that_is_not_there() -> None:
    air.inference.set_dim_gears(X.clone(), {5: [1, 2]})  # here


def cache_of_a_module() -> None:
    air.inference.cache_compile(nn.ReLU())  # here


def cache_file_that_is_none() -> None:
    air.inference.readable_cache(__file__)  # here


def print_without_a_tensor() -> None:
    air.ops.npu_print("hello")  # here


def internal_format_on_the_host() -> None:
    air.use_internal_format_weight(nn.Linear(2, 2))  # here


def addresses_that_are_no_list() -> None:
    address: Any = "0x10"
    air.llm_datadist.create_npu_tensors([2], torch.float16, address)  # here


def export_without_a_model() -> None:
    with tempfile.TemporaryDirectory() as folder:
        air.dynamo_export(X, model=None, export_path=folder)  # type: ignore[arg-type]  # here


def pattern_that_is_no_function() -> None:
    air.register_replacement("add", lambda x: x, (X,))  # type: ignore[arg-type]  # here
