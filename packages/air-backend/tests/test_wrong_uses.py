"""Wrong uses: each raises the right class, names the line that is wrong, and says what to do.

The functions are in `wrong_uses.py`. An error of the compilation reaches the user inside Dynamo's
`BackendCompilerFailed`: what is looked at is the text that the user reads, and the class inside.
"""

from __future__ import annotations

import inspect
import re
import traceback
import types
from collections.abc import Callable
from typing import NamedTuple

import pytest
from torch._dynamo.exc import BackendCompilerFailed

import wrong_uses as wrong


class Wrong(NamedTuple):
    """A wrong use and its error: the class, words of what happened, words of what to do, where the line is named."""

    use: Callable[[], None]
    error: str
    what: str
    advice: str
    in_text: bool = False
    """Whether the text names the line; otherwise it is the line that the traceback ends at in the user's file."""


HELPERS = ("run", "group_of_one")
CASES = (
    Wrong(wrong.mode_that_does_not_exist, "WrongValue", "option 'mode'", 'allowed  "max-autotune"'),
    Wrong(wrong.misspelt_option, "UnknownOption", "debug.run_eager'", "did you mean 'debug.run_eagerly'"),
    Wrong(wrong.text_for_a_switch, "WrongType", "'yes' (str)", "True or False"),
    Wrong(wrong.truth_value_for_a_number, "WrongType", "True (bool)", "an int from 1 up"),
    Wrong(wrong.number_out_of_range, "WrongValue", "0 (int)", "an int from 1 up"),
    Wrong(wrong.value_for_a_group, "NotAGroup", "'debug' is a group", "set its members: run_eagerly"),
    Wrong(wrong.folder_that_is_not_there, "MissingPath", "'/no/such/folder'", "create it first"),
    Wrong(wrong.format_of_dump_that_does_not_exist, "WrongValue", "'json'", '"txt" or "pbtxt"'),
    Wrong(
        wrong.pass_that_is_no_function, "WrongType", "'fuse'", "a function of (gm, example_inputs, config)"
    ),
    Wrong(
        wrong.misspelt_option_of_torch_compile,
        "UnknownOption",
        "'clone_outputs'",
        "did you mean 'clone_output'",
    ),
    Wrong(
        wrong.options_that_are_no_mapping, "OptionsOfWrongType", "got a list", "give a dict of option names"
    ),
    Wrong(
        wrong.options_for_get_npu_backend, "OptionsOfWrongType", "got a dict", "CompilerConfig.from_options"
    ),
    Wrong(wrong.mode_of_torch_compile_that_does_not_exist, "UnknownMode", "'turbo'", "use one of: default"),
    Wrong(
        wrong.option_of_torch_compile_with_a_wrong_value, "WrongValue", "capture_limit", "an int from 1 up"
    ),
    Wrong(wrong.function_for_compile_fx, "NotAGraphModule", "got a function", "torch.compile(model"),
    Wrong(wrong.graph_break_in_a_stream_scope, "Unsupported", "graph_break", "Remove the", True),
    Wrong(
        wrong.wait_for_an_event_that_nobody_records,
        "StreamCheckError",
        "never recorded in this graph",
        "record the event before the wait",
        True,
    ),
    Wrong(wrong.use_on_another_stream_without_a_wait, "StreamCheckError", "race", "sync='auto'", True),
    Wrong(wrong.event_that_is_a_text, "UnknownEvent", "'66'", "npu_create_tagged_event"),
    Wrong(wrong.tag_that_is_a_number, "InvalidArgument", "got 1", "name the stream or event with a string"),
    Wrong(wrong.priority_that_is_a_text, "InvalidArgument", "'high'", "use 0 for the device's default"),
    Wrong(wrong.priority_where_there_are_none, "Unsupported", "priority -1", "remove stream_priority", True),
    Wrong(
        wrong.two_priorities_for_one_stream,
        "StreamPriorityError",
        "-1 and with",
        "one priority per tag",
        True,
    ),
    Wrong(
        wrong.priority_for_the_main_stream, "StreamPriorityError", "entry stream", "a tag of your own", True
    ),
    Wrong(
        wrong.core_limit_where_there_are_no_cores,
        "Unsupported",
        "host runtime",
        "remove limit_core_num",
        True,
    ),
    Wrong(wrong.core_limit_of_nothing, "InvalidArgument", "at least 1", "every chip has an AI core"),
    Wrong(wrong.wait_for_nothing, "InvalidArgument", "non-empty list", "what record() returned"),
    Wrong(wrong.dependency_that_is_no_tensor, "InvalidArgument", "must be a tensor", "give a tensor"),
    Wrong(
        wrong.tagged_event_in_max_autotune, "UnsupportedGraphError", "has no event", "reduce-overhead", True
    ),
    Wrong(wrong.two_collectives_in_no_order, "StreamCheckError", "collective deadlock", "sync='auto'", True),
    Wrong(
        wrong.level_of_determinism_that_does_not_exist, "InvalidArgument", "0 to 3, got 9", "order of sums"
    ),
    Wrong(wrong.shape_that_depends_on_data, "IllegalDuringCapture", "aten.nonzero", "run_eagerly", True),
    Wrong(wrong.number_read_from_a_tensor, "IllegalDuringCapture", "host has to wait", "run_eagerly", True),
    Wrong(wrong.branch_on_data, "Unsupported", "Data-dependent branching", "torch.cond", True),
    Wrong(
        wrong.mask_as_an_index, "IllegalDuringCapture", "depends on the data", "outside the compiled", True
    ),
    Wrong(
        wrong.operator_without_a_converter,
        "UnsupportedGraphError",
        "opaque",
        "air.unsupported = 'split'",
        True,
    ),
    Wrong(
        wrong.reduction_that_has_no_operator, "UnsupportedGraphError", "'band'", "use one of max, min", True
    ),
    Wrong(wrong.asynchronous_collective_in_a_graph, "Unsupported", "handle", "Leave async_op out", True),
    Wrong(
        wrong.converter_that_does_not_fit_its_operator,
        "ConverterError",
        "takes (y)",
        "the schema's arguments: x",
        in_text=True,
    ),
    Wrong(wrong.second_converter_for_an_operator, "ConverterError", "already has a converter", "unregister"),
    Wrong(
        wrong.pass_that_fails, "PassFailed", "divides by zero", "leave 'custom_pre' out or repair it", True
    ),
    Wrong(
        wrong.output_read_after_it_was_overwritten, "StaleOutput", "was overwritten by call 1", "clone", True
    ),
    Wrong(wrong.gears_of_a_number, "DeclarationRefused", "not on 3", "set_dim_gears(tensor, {dim: [sizes]})"),
    Wrong(wrong.gears_for_an_axis_that_is_not_there, "DeclarationRefused", "5 is no dim", "0 to 1"),
    Wrong(wrong.cache_of_a_module, "OptionsOfWrongType", "got a ReLU", "such as model.forward"),
    Wrong(wrong.cache_file_that_is_none, "NotACache", "BadZipFile", "below the cache_dir"),
    Wrong(wrong.print_without_a_tensor, "BadPrint", "no argument is a tensor", "give at least one tensor"),
    Wrong(wrong.internal_format_on_the_host, "WeightsOnHost", "weight is on 'cpu'", "model.npu()"),
    Wrong(wrong.addresses_that_are_no_list, "BadAddresses", "'0x10'", "a list of addresses"),
    Wrong(wrong.export_without_a_model, "ExportError", "NoneType", "forward of a module"),
    Wrong(wrong.pattern_that_is_no_function, "BadArgument", "not 'add'", "the function to look for"),
)


def line_of(use: Callable[[], None]) -> int:
    """The line of a wrong use that ends in `# here`."""
    lines, first = inspect.getsourcelines(use)
    (index,) = (i for i, line in enumerate(lines) if line.rstrip().endswith("# here"))
    return first + index


def lines_named(error: BaseException, use: Callable[[], None], in_text: bool) -> set[int]:
    """The lines of the user's file that the text, or the traceback, names."""
    file = inspect.getfile(use)
    if in_text:
        places = re.findall(re.escape(file) + r'(?::|", line )(\d+)', str(error))
        return {int(place) for place in places}
    return {
        frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.use.__name__)
def test_a_wrong_use_is_an_error_with_its_class_its_line_and_advice(case: Wrong) -> None:
    with pytest.raises(Exception) as failure:  # which class it is depends on the case, and is looked at
        case.use()
    error = failure.value
    cause = error.inner_exception if isinstance(error, BackendCompilerFailed) else error
    text = str(error)
    assert type(cause).__name__ == case.error, text
    assert case.what in text, text
    assert case.advice in text, text
    assert line_of(case.use) in lines_named(error, case.use, case.in_text), text


def test_every_wrong_use_is_in_the_table_and_there_are_more_than_forty() -> None:
    uses = {
        value
        for name, value in vars(wrong).items()
        if isinstance(value, types.FunctionType)
        and value.__module__ == wrong.__name__
        and name not in HELPERS
    }
    assert {case.use for case in CASES} == uses
    assert len(CASES) > 40
