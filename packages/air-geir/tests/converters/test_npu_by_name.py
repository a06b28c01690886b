"""Operators of torch_npu without a card become what TorchAir makes of them: the type, the inputs, the attributes."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from air_fxpasses.npu_cards import (
    Ir,
    PackedScale,
    ReadAs,
    Respelled,
    ThreeInOne,
    TypeNumber,
    arguments_of,
    operators,
)
from air_geir.building import Context, Value
from air_geir.building._sizes import Sizes
from air_geir.converters import find_converter
from air_geir.converters._npu_narrow_rows import WITH
from air_geir.converters.npu_by_card import arguments_read
from air_geir.converters.npu_by_name import ROWS, Loaded
from air_geir.errors import CannotConvert
from air_geir.ir import DataType, Graph, Node, TensorDesc
from air_geir.prototypes import get
from air_graph import hidden_writes, is_written

pytestmark = pytest.mark.npu("TorchAir is asked, which torch_npu brings")

SIZE = (4, 8)
#: Beside the operator itself: arguments, copies of what is written, tensors without elements, bytes in another type.
AROUND = (
    "Data", "Const", "TensorMove", "Assign", "Fill", "Cast", "Bitcast", "Reshape", "Transpose", "Shape", "Mul", "Div",
    "RealDiv", "ConcatV2",
)  # fmt: skip
EIGHT_BITS = (torch.float8_e4m3fn, SIZE)
SCALE = (torch.float32, SIZE)
EXPONENTS = (torch.uint8, (4, 4, 2))
GROUPS = {
    **dict.fromkeys(("gmm_x", "gmm_weight", "mm_x", "mm_weight"), EIGHT_BITS),
    **dict.fromkeys(("gmm_x_scale", "gmm_weight_scale", "mm_x_scale", "mm_weight_scale"), EXPONENTS),
}
#: Type and size of arguments, where TorchAir takes no half precision.
TENSORS: dict[str, dict[str, tuple[torch.dtype, tuple[int, ...]]]] = {
    "batch_norm_gather_stats_update": {"input": (torch.float32, (2, 8, 3, 3))},
    "npu_all_to_all_quant_matmul": {"x2": EIGHT_BITS, "x1_scale": SCALE, "x2_scale": SCALE, "bias": SCALE},
    "npu_alltoallv_quant_gmm": GROUPS,
    "npu_anti_mx_quant": {"x": EIGHT_BITS, "mxscale": EXPONENTS},
    "npu_anti_quant": {"x": (torch.int8, SIZE)},
    "npu_grouped_dynamic_mx_quant": {"group_index": (torch.int32, (2,))},
    "npu_quant_gmm_alltoallv": GROUPS,
    "npu_quant_matmul": {"x1": (torch.int8, SIZE), "x2": (torch.int8, SIZE)},
    "npu_quant_matmul_all_to_all": {
        "x1": EIGHT_BITS,
        "x2": EIGHT_BITS,
        "x1_scale": SCALE,
        "x2_scale": SCALE,
        "bias": SCALE,
    },
}
#: Operators with a card that TorchAir converts in another way, and why that is no judge.
CARDS_APART = {
    "npu_fusion_attention": "its converter takes fewer arguments than torch_npu gives",
    "npu_kv_rmsnorm_rope_cache_v2_functional": "its converter does not take the arguments of the schema",
    "npu_linear": "it makes the first version of MatMul",
    "npu_moe_gating_top_k_softmax_v2": "its converter passes an attribute that its operator type does not take",
    "npu_quant_scatter_": "its converter takes fewer arguments than torch_npu gives",
}
CARDS = {
    card.name: card.ir
    for card in operators()
    if card.ir is not None and "." not in card.name and card.name not in CARDS_APART
}
EVERY_ROW = {**ROWS, **CARDS}
#: torch_npu's number of the exponents that scales share.
EXPONENT = 293
SCALED_GROUPS = {
    "ep_world_size": 8,
    "gmm_y_dtype": 5,
    "group_size": None,
    "comm_mode": "ai_cpu",
    **dict.fromkeys(
        ("gmm_x_quant_mode", "gmm_weight_quant_mode", "mm_x_quant_mode", "mm_weight_quant_mode"), 6
    ),
    **dict.fromkeys(("gmm_x_scale_dtype", "gmm_weight_scale_dtype"), EXPONENT),
}
ORDERS = {"perm_x1": [1, 0, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2]}
RANKS = {"world_size": 8}
#: Names of inputs in TorchAir, and in the operator types of CANN.
RENAMED = {"rotation": "rot", "scale_x": "scales_x"}
#: Attributes that TorchAir does not pass on: of a type of its own, or forgotten.
NOT_PASSED = {
    "npu_kronecker_quant": ("dst_dtype", "dst_type_max"),
    "npu_attention_worker_combine": ("need_schedule",),
    "npu_rotate_quant": ("trans",),
}
NO_SCALES = dict.fromkeys(("x1_scale", "x2_scale", "output_dtype", "comm_mode"))
STATES = {name: name for name in ("beta", "actual_seq_lengths", "ssm_state_indices")} | {"scale": 0.5}
#: What a call may give besides what is drawn.
GIVEN: dict[str, dict[str, Any]] = {
    "batch_norm_gather_stats_update": {"running_mean": "running_mean", "running_var": "running_var"},
    "npu_add_rms_norm_dynamic_quant": {"y_dtype": 1, "output_mask": [True, True]},
    "npu_add_rms_norm_quant": {"dst_type": 1},
    "npu_quant_matmul": {"output_dtype": 5},
    "npu_all_gather_quant_mm": RANKS | {"y_dtype": None},
    "npu_all_to_all_matmul": RANKS,
    "npu_fused_infer_attention_score_v2": {"out_dtype": 23},  # torch.float8_e5m2
    "npu_all_to_all_quant_matmul": RANKS
    | {
        "x1_quant_mode": 7,
        "x2_quant_mode": 2,
        "x1_quant_dtype": 24,
        "x2_scale": "x2_scale",
        "comm_mode": "ai_cpu",
    },
    "npu_alltoallv_quant_gmm": SCALED_GROUPS,
    "npu_anti_mx_quant": {"axis": -1},
    "npu_dynamic_block_quant": {"dst_type": 291},  # torch_npu.float8_e5m2
    "npu_dynamic_quant_asymmetric": {"dst_type": 1},
    "npu_grouped_dynamic_mx_quant": {"scale_alg": 1, "blocksize": 32},
    "npu_matmul_all_to_all": RANKS,
    "npu_quant_gmm_alltoallv": SCALED_GROUPS | {"comm_quant_mode": 0},
    "npu_quant_matmul_all_to_all": RANKS
    | {
        "x1_quant_mode": 3,
        "x2_quant_mode": 2,
        "x1_scale": "x1_scale",
        "x2_scale": "x2_scale",
        "comm_mode": "ai_cpu",
    },
    "npu_quant_scatter": {"dst_type": 1},
    "npu_quant_mm_reduce_scatter": RANKS | {"y_dtype": None},
    "npu_rotate_quant": {"dst_dtype": 1},
    "npu_all_gather_base_mm": NO_SCALES,
    "npu_dequant_bias": {"output_dtype": torch.float16},
    "npu_ffn": {"activation": "gelu", "inner_precise": 1, "expert_tokens": None},
    "npu_gelu_backward": {"approximate": "tanh"},
    "npu_group_quant": {"dst_dtype": torch.int8},
    "npu_mm_all_reduce_base": {"comm_quant_mode": 0},
    "npu_mm_reduce_scatter_base": NO_SCALES,
    "npu_moe_distribute_combine": {"shared_expert_x": None},
    "npu_moe_distribute_dispatch_v2": {"quant_mode": 0, "y_dtype": 24},  # torch.float8_e4m3fn
    "npu_gelu_quant": {"quant_mode": "dynamic"},
    "npu_recurrent_gated_delta_rule": STATES,
    "npu_recurrent_gated_delta_rule_functional": STATES,
    "npu_sparse_flash_attention": {"value": "value"},
    "npu_transpose_batchmatmul": ORDERS,
    "npu_transpose_quant_batchmatmul": ORDERS | {"dtype": 5, "batch_split_factor": 1},  # torch.float16
}


def operator(name: str) -> torch._ops.OpOverload:
    found: torch._ops.OpOverload = getattr(torch.ops.npu, name).default
    return found


def tensor_of(name: str, argument: str) -> tuple[torch.dtype, tuple[int, ...]]:
    """Type and size of an argument."""
    return TENSORS.get(name, {}).get(argument, (torch.float16, SIZE))


def restricted(ir: Ir) -> set[str]:
    """Arguments that have few values here."""
    chosen = [s for s in ir.takes.values() if isinstance(s, (Respelled, TypeNumber, ThreeInOne))]
    types = {
        source.type
        for source in ir.takes.values()
        if isinstance(source, (ReadAs, PackedScale)) and source.type
    }
    return {*ir.only, *types, *(name for source in chosen for name in arguments_of(source))}


def drawn(name: str, everything: bool) -> dict[str, Any]:
    """Arguments of a call: tensors by the names of their arguments, numbers that are no defaults."""
    given: dict[str, Any] = {}
    ir = EVERY_ROW[name]
    read = arguments_read(Loaded(operator(name)), ir)
    for number, argument in enumerate(operator(name)._schema.arguments):
        kind, key = str(argument.type), argument.name
        optional = kind.startswith("Optional")
        if key in GIVEN.get(name, {}):
            given[key] = GIVEN[name][key]
        elif key not in read:
            given[key] = argument.default_value
        elif "Tensor" in kind:
            is_there = (not optional or everything) and key not in ir.only
            given[key] = ([key] if "List" in kind else key) if is_there else None
        elif (argument.has_default_value() and not everything) or key in restricted(ir):
            given[key] = argument.default_value if argument.has_default_value() else 1
        else:
            given[key] = plain(kind, argument.default_value, number)
    return given


def plain(kind: str, default: Any, number: int) -> Any:
    """A value of a type of TorchScript that is not its default."""
    if "List[int]" in kind:
        return [number, number + 1, number + 2]
    if "str" in kind:
        return default or f"text {number}"
    if "bool" in kind:
        return not default
    if "float" in kind:
        return 0.25 + number
    return None if "int" not in kind else number + 3


def spelled(node: Node) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Operator type, the argument at each input, and the attributes with their defaults."""
    prototype = get(node.op_type)
    inputs = {
        name: unnumbered(source(port.node).name)
        for name, port in zip(node.input_names, node.inputs, strict=True)
        if port is not None
    }
    attributes = {spec.name: spec.default for spec in prototype.attrs if not spec.is_required}
    attributes |= {key: attr.value for key, attr in node.attrs.items()}
    return node.op_type, inputs, {key: written(value) for key, value in attributes.items()}


#: What makes another operand of an argument: a copy for what is written in place, the same bytes in another type.
_MADE = ("TensorMove", "Cast", "Bitcast", "Reshape", "Transpose")


def source(node: Node) -> Node:
    """The argument behind what is made of it."""
    while node.op_type in _MADE and node.inputs[0] is not None:
        node = node.inputs[0].node
    return node


def unnumbered(name: str) -> str:
    """Both sides number their constants, and their tensors without elements, in their own way."""
    return next((kind for kind in ("Fill", "Const") if name.startswith(kind)), name)


def written(value: Any) -> Any:
    """A value as both sides write it."""
    if isinstance(value, DataType):
        return value.api
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-6)
    return (
        list(value) if isinstance(value, (list, tuple)) else int(value) if isinstance(value, bool) else value
    )


def ours(name: str, given: dict[str, Any]) -> list[Node]:
    graph = Graph("made")
    ctx = Context(graph, Sizes(graph, hosted=False))

    def value(of: Any) -> Any:
        dtype, size = tensor_of(name, of)
        return Value(graph.data(of, TensorDesc(DataType.of(dtype), size)), dtype, size)

    schema = operator(name)._schema
    tensors = {argument.name for argument in schema.arguments if "Tensor" in str(argument.type)}
    converter = find_converter(operator(name))
    assert converter is not None
    filled = {
        key: value(of)
        if isinstance(of, str) and key in tensors
        else [value(of[0])]
        if key in tensors and of
        else of
        for key, of in given.items()
    }
    metas = [torch.empty(SIZE, dtype=torch.float16, device="meta") for _ in schema.returns]
    with ctx.converting(metas if len(metas) != 1 else metas[0]):
        converter.function(ctx, **filled)
    return [node for node in graph if node.op_type not in AROUND]


#: Modules of TorchAir that convert for Ascend 950 alone; of torch_npu's own kernels, there is one for every chip.
OF_ONE_CHIP = (
    "fused_matmul", "npu_rotary_mul_backward", "quant_grouped_matmul_inplace_add", "quant_matmul_inplace_add",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _any_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchAir asks CANN which inputs and attributes its version has."""
    known = SimpleNamespace(get_registered_ir_def=lambda _: ("SUCCESS", [], [], []))
    monkeypatch.setattr("torchair._ge_concrete_graph.compat_ir.is_cann_compat", lambda *_, **__: "")
    monkeypatch.setattr("torchair.ge.ge_custom._torchair", known)
    custom = "torchair._ge_concrete_graph.ge_converter.custom"
    import_module(custom)  # registers its converters
    for of_one_chip in OF_ONE_CHIP:
        monkeypatch.setattr(f"{custom}.{of_one_chip}.is_arch35", lambda: True)


def theirs(name: str, given: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    builders: Any = import_module("torchair._ge_concrete_graph.ge_apis")
    graphs: Any = import_module("torchair.ge._ge_graph")
    convert: Any = operator(name)._ge_converter  # type: ignore[attr-defined]  # TorchAir has put it there
    schema = operator(name)._schema
    tensors = {argument.name for argument in schema.arguments if "Tensor" in str(argument.type)}
    with graphs.GeGraph() as graph:

        def value(of: str, index: int) -> Any:
            dtype, size = tensor_of(name, of)
            made = builders.Data(
                index=index, dtype=DataType.of(dtype).api, shape=list(size), placement="NPU", node_name=of
            )
            made.set_meta(torch.empty(size, dtype=dtype, device="meta"))
            return made

        positional, named = [], {}
        for index, argument in enumerate(schema.arguments):
            of = given[argument.name]
            if argument.name in tensors and of is not None:
                of = value(of, index) if isinstance(of, str) else [value(of[0], index)]
            if argument.kwarg_only:
                named[argument.name] = of
            else:
                positional.append(of)
        convert.__wrapped__(*positional, **named)
        (node,) = (op for op in graph.op if op.type not in AROUND)
        prototype = get(node.type)
        made = {op.name: op.input[0].partition(":")[0] for op in graph.op if op.type in _MADE}

        def origin(of: str) -> str:
            return origin(made[of]) if of in made else of

        fed = [origin(edge.partition(":")[0]) for edge in node.input]
        inputs = {
            RENAMED.get(desc.name, desc.name): unnumbered(of)
            for desc, of in zip(node.input_desc, fed, strict=False)
            if of
        }
        attributes = {spec.name: spec.default for spec in prototype.attrs if not spec.is_required}
        attributes |= {key: held(attr) for key, attr in node.attr.items() if key in prototype.attr}
    return node.type, inputs, {key: written(value) for key, value in attributes.items()}


def held(attr: Any) -> Any:
    """What an attribute of a protobuf message holds."""
    kind = attr.WhichOneof("value")
    value = getattr(attr, kind)
    if kind != "list":
        return value
    return next((list(getattr(value, field)) for field in ("s", "i", "f", "b") if getattr(value, field)), [])


@pytest.mark.parametrize("everything", [False, True], ids=["what is required", "everything"])
@pytest.mark.parametrize("name", EVERY_ROW)
def test_N03_an_operator_of_torch_npu_becomes_what_torchair_makes_of_it(name: str, everything: bool) -> None:
    if not hasattr(operator(name), "_ge_converter"):
        assert name in CARDS, "TorchAir does not convert it"
        return
    given = drawn(name, everything)
    (node,) = ours(name, given)
    found, expected = spelled(node), theirs(name, given)
    for attribute in NOT_PASSED.get(name, ()):
        del found[2][attribute], expected[2][attribute]
    assert found == expected


@pytest.mark.parametrize("name", [name for name, ir in ROWS.items() if restricted(ir)])
def test_N03_what_such_an_operator_does_not_compute_is_refused(name: str) -> None:
    given = drawn(name, False)
    arguments = operator(name)._schema.arguments
    of_type = {argument.name: argument.type for argument in arguments}
    names = [a.name for a in arguments if a.name in restricted(ROWS[name]) and "Tensor" not in str(a.type)]
    given[names[0]] = [77] if "List" in str(of_type[names[0]]) else 77
    with pytest.raises(CannotConvert):
        ours(name, given)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_names_outputs_that_its_operator_type_has(name: str) -> None:
    for ir in (ROWS[name], *(row for of, (_, row) in WITH.items() if of == name)):
        assert {*ir.gives, *ir.held, *ir.needs, *ir.typed_as} <= {port.name for port in get(ir.type).outputs}


#: Their operator types write in place; torch_npu gives those a copy.
OF_A_COPY = {
    "_npu_distribute_barrier", "attention_worker_scheduler", "ffn_worker_scheduler", "npu_add_quant_gmm",
    "npu_add_quant_matmul", "npu_batch_gather_matmul", "npu_qkv_rms_norm_rope_cache_functional",
    "npu_recurrent_gated_delta_rule_functional",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, ir in ROWS.items() if get(ir.type).refs])
def test_what_an_operator_type_writes_in_place_is_known_to_be_written(name: str) -> None:
    written = {a.name for a in operator(name)._schema.arguments if is_written(a)}
    known = written | set(hidden_writes(operator(name)) or ())
    assert (name in OF_A_COPY) == (not known)


def test_N03_a_prefetch_begins_after_what_it_waits_for() -> None:
    graph = Graph("made")
    ctx = Context(graph, Sizes(graph, hosted=False))
    weight, before = (
        Value(graph.data(name, TensorDesc(DataType.FLOAT16, SIZE)), torch.float16, SIZE)
        for name in ("w", "x")
    )
    converter = find_converter(operator("npu_prefetch"))
    assert converter is not None
    converter.function(ctx, weight, before, 512)
    converter.function(ctx, weight, before, 512, 64)
    first, second = graph.of_type("Cmo")
    assert {node.name for node in first.control_inputs} == {"x"}
    assert [first.attr("offset"), second.attr("offset"), second.attr("type")] == [0, 64, 6]
    with pytest.raises(CannotConvert, match="waits for nothing"):
        converter.function(ctx, weight, None, 512)
    with pytest.raises(CannotConvert, match="nothing to fetch"):
        converter.function(ctx, weight, before, 0)
