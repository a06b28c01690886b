"""From a model to `.air` files that `atc` or a GE session loads."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec
from torch.utils import _pytree as pytree

from air_config import CompilerConfig, Context, resolve
from air_geir import file
from air_geir.dump import to_pbtxt
from air_geir.errors import ExportError
from air_geir.export._relation import write_relation
from air_geir.export._repeated import repeats_apart, without_repeats
from air_geir.export._weights import embed
from air_geir.ge_passes import (
    Annotate,
    DropUnusedInputs,
    GePass,
    MarkReferences,
    OrderPrefetches,
    OrderSideEffects,
    WriteWithoutCopy,
    run_passes,
)
from air_geir.ir import Graph, Node, Port
from air_geir.lowering import Table, lower_program
from air_geir.program import ArgInput, ArgOutput, GraphOutput, Program, readers_of
from air_geir.verify import verify
from air_graph import ranks
from air_graph.errors import first_line
from air_graph.files import folder as make_folder
from air_graph.files import write_text

log = logging.getLogger(__name__)

WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    model: Path
    """The `.air` file of this rank."""
    files: tuple[Path, ...]
    """Every file, the model first."""
    graph: Graph
    """The graph in the file, its weights included."""


def dynamo_export(
    *args: Any,
    model: torch.nn.Module,
    export_path: str | Path = "export_file",
    export_name: str = "export",
    dynamic: bool = False,
    config: CompilerConfig | None = None,
    inline_limit: int = file.INLINE_LIMIT,
    **kwargs: Any,
) -> Exported:
    """Write a model as Ascend IR, without running it and without a device.

    Args:
        args: example inputs; `kwargs` are passed to the model by name.
        model: the module to export. It must be one full graph.
        export_path: folder for the files, made when it is missing. With several ranks each writes its weights and
            its drawing into a folder `rank_<k>` of its own.
        export_name: name of the model file without its ending; with several ranks the rank is added.
        dynamic: let every size of the inputs vary.
        config: `export.experimental` says what else is written; other options leave a notice.
        inline_limit: bytes of weights up to which they are kept in the model file; beyond it each becomes a raw
            file beside it.

    Returns:
        The files written, and the graph.
    """
    settings = resolve(config, Context(device="npu", export=True)).check()
    _file_name(export_name)
    if not isinstance(model, torch.nn.Module):
        raise ExportError(
            f"the model is of {type(model).__name__}, not a torch.nn.Module",
            advice="put a function into the forward of a module",
        )
    _arguments_fit(model, args, kwargs)
    folder = _folder(Path(export_path))
    rank, world = ranks.rank_and_size()
    record = settings.export.experimental.enable_record_nn_module_stack
    exported = _trace(model, args, dict(kwargs), dynamic)
    program, weights, groups = to_program(exported, name=export_name, record_modules=record)
    embed(program, weights)
    finish(program)
    name = f"{export_name}{rank}" if world > 1 else export_name
    own = _folder(folder / f"rank_{rank}") if world > 1 else folder
    target = folder / f"{name}.air"
    written = file.write(program.graph, target, inline_limit=inline_limit, beside=own)
    drawing = own / "dynamo.pbtxt"
    write_text(drawing, to_pbtxt(program.graph), "the drawing of the model")
    written.append(drawing)
    if settings.export.experimental.auto_atc_config_generated and rank == 0:
        names = [f"{export_name}{k}" if world > 1 else export_name for k in range(world)]
        written.extend(write_relation(folder, names, groups))
    return Exported(target, tuple(written), program.graph)


def _arguments_fit(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Arguments that `forward` does not take are refused; a mistyped option of the export is one of them."""
    try:
        signature = inspect.signature(model.forward)
    except ValueError:  # of a function without one
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        options = inspect.signature(dynamo_export).parameters.values()
        known = [option.name for option in options if option.kind is option.KEYWORD_ONLY]
        raise ExportError(
            f"the forward of {type(model).__name__} cannot be called with these arguments: {error}",
            advice=f"give the arguments of forward{signature}; options of the export are {', '.join(known)}",
        ) from error


def finish(program: Program) -> None:
    """The passes an export needs: nothing is tied to a caller's memory, written inputs say so themselves."""
    passes: list[GePass] = [
        WriteWithoutCopy(),
        OrderSideEffects(),
        OrderPrefetches(),
        DropUnusedInputs(),
        Annotate(),
    ]
    run_passes(program, passes)
    run_passes(program, [MarkReferences()])
    verify(program.graph)


def to_program(
    exported: ExportedProgram, *, name: str, record_modules: bool = False, decompositions: Table | None = None
) -> tuple[Program, dict[int, tuple[str, torch.Tensor]], dict[str, Sequence[int]]]:
    """The lowered model, its weights by argument, and the process groups its collectives use."""
    module = exported.graph_module
    holders = [n for n in module.graph.nodes if n.op == "placeholder"]
    examples = [n.meta.get("val") for n in holders]
    program = lower_program(module, examples, name=name, sizes_on_host=False, decompositions=decompositions)
    weights: dict[int, tuple[str, torch.Tensor]] = {}
    state = {**exported.constants, **exported.state_dict}
    for arg, spec in enumerate(exported.graph_signature.input_specs):
        if spec.kind in WEIGHTS and spec.target is not None:
            value = state.get(spec.target)
            if isinstance(value, torch.Tensor):
                weights[arg] = (spec.target, value)
    if record_modules:
        _record_modules(program.graph, module)
    _write_back(program, exported)
    return program, weights, _groups(program.graph)


def _record_modules(graph: Graph, module: torch.fx.GraphModule) -> None:
    """Each operator carries the path of the module it was made for."""
    stacks = {n.name: n.meta.get("nn_module_stack") for n in module.graph.nodes}
    for node in graph:
        stack = stacks.get(node.origin.fx) if node.origin is not None else None
        if stack:
            path, kind = list(stack.values())[-1]
            node.set_attr("nn_module_stack", f"{path}: {kind}")


def _trace(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: bool
) -> ExportedProgram:
    apart = repeats_apart(args, kwargs)
    exported = _traced(model, apart.args, apart.kwargs, dynamic)
    if apart.repeated and _written(exported) & apart.repeated:
        return _traced(*without_repeats(model, args, kwargs), dynamic)
    return exported


def _written(exported: ExportedProgram) -> set[int]:
    """The positions of the inputs that the model writes to, among all that it was given."""
    signature = exported.graph_signature
    given = [spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
    written = {spec.target for spec in signature.output_specs if spec.kind is OutputKind.USER_INPUT_MUTATION}
    return {at for at, name in enumerate(given) if name in written}


def _traced(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: bool
) -> ExportedProgram:
    try:
        shapes = _any_sizes(model, args, kwargs) if dynamic else None
        with torch.no_grad():
            exported = torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
            functional: ExportedProgram = exported.run_decompositions({})
            return functional
    except Exception as error:
        raise ExportError(
            f"{type(model).__name__} is not a single graph: {type(error).__name__}: {first_line(error)}",
            advice="the error above this one names the line; torch.export.draft_export lists everything at once",
        ) from error


def _any_sizes(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Every size of every tensor may vary: by the names of the parameters, as torch.export wants it."""
    given = inspect.signature(model.forward).bind(*args, **kwargs).arguments
    auto = torch.export.Dim.AUTO
    return {
        name: pytree.tree_map(
            lambda v: dict.fromkeys(range(v.dim()), auto) if isinstance(v, torch.Tensor) else None, value
        )
        for name, value in given.items()
    }


def _write_back(program: Program, exported: ExportedProgram) -> None:
    """Results that are updates of buffers or inputs are assigned to them instead of being given back.

    A result, or an update, that is an argument as it was given is a copy of it, so that the file has all tensors of
    the model's result, and each is what it was before anything was written.
    """
    signature = exported.graph_signature
    position = {spec.arg.name: i for i, spec in enumerate(signature.input_specs) if hasattr(spec.arg, "name")}
    by_target = {spec.target: i for i, spec in enumerate(signature.input_specs) if spec.target is not None}
    graph = program.graph
    data = {b.arg: n for n, b in zip(graph.inputs, program.inputs, strict=True) if isinstance(b, ArgInput)}
    end = graph.net_output
    given: list[tuple[OutputSpec, Port]] = []
    for spec, binding in zip(signature.output_specs, program.outputs, strict=True):
        if isinstance(binding, ArgOutput):
            with graph.inserting_before(end):
                source = data[binding.arg].output
                given.append((spec, graph.add("Identity", source, outputs=source.desc).output))
        elif isinstance(binding, GraphOutput) and (computed := end.inputs[binding.index]) is not None:
            given.append((spec, computed))  # else it is a number
    kept = [value for spec, value in given if spec.kind not in MUTATIONS]
    for spec, value in given:
        if spec.kind not in MUTATIONS:
            continue
        arg = by_target.get(spec.target, position.get(spec.target or ""))
        if arg is None or arg not in data:
            raise ExportError(
                f"the update of {spec.target} has no input to go to",
                advice="write to buffers and inputs of the model only",
            )
        with graph.inserting_before(end):
            end.run_after(_assigned_last(graph, data[arg].output, value))
    control = end.control_inputs
    end.erase()
    graph.output(kept, control=control)
    program.outputs = tuple(GraphOutput(i) for i in range(len(kept)))


def _assigned_last(graph: Graph, target: Port, value: Port) -> Node:
    """An Assign that runs after all that reads what was there before."""
    readers = readers_of(target)
    assign = graph.add("Assign", target, value, outputs=target.desc)
    before: set[Node] = set()
    waiting = [assign] if readers else []
    while waiting:
        found = [node for node in waiting.pop().predecessors if node not in before]
        before.update(found)
        waiting += found
    for reader in readers:
        if reader not in before and reader is not graph.net_output:
            assign.run_after(reader)
    return assign


def _groups(graph: Graph) -> dict[str, Sequence[int]]:
    """Process groups named by collectives, with their ranks."""
    names = {str(node.attr("group")) for node in graph if "group" in node.attrs}
    if not names:
        return {}
    found: dict[str, Sequence[int]] = {}
    for group in _live_groups():
        if group.group_name in names:
            found[group.group_name] = torch.distributed.get_process_group_ranks(group)
    return found


def _live_groups() -> list[Any]:
    """The process groups of this process."""
    if not ranks.is_in_a_job():
        return []
    return list(torch.distributed.distributed_c10d._world.pg_map)


def _file_name(name: object) -> None:
    if not isinstance(name, str) or not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ExportError(
            f"export_name is {name!r}, and not the name of a file",
            advice="give a name without a folder, such as 'net'; export_path names the folder",
        )


def _folder(path: Path) -> Path:
    if path.is_symlink():
        raise ExportError(f"{path} is a symbolic link", advice="give the folder it points to")
    if path.exists() and not path.is_dir():
        raise ExportError(f"{path} is not a folder", advice="give another export_path, or remove the file")
    return make_folder(path, "the folder of the export")
