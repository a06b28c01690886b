"""What a graph engine refuses becomes an error with the graph, the engine's words and advice."""

from __future__ import annotations

import pytest
import torch

from air_geir.engines._failures import failure, no_memory, of_a_run
from air_geir.errors import CompilationFailed, EngineError, OutOfMemory


def test_lines_after_the_first_one_say_where_and_frames_are_left_out() -> None:
    error = failure("run", "decoder", "E19999: no room\n\n  in node add\nframe #0: c10::Error\n")
    assert type(error) is EngineError
    assert error.what == "the graph engine failed to run graph decoder: E19999: no room"
    assert error.where == "  in node add"


def test_only_what_was_not_compiled_may_run_otherwise() -> None:
    assert type(failure("compile", "decoder", "")) is CompilationFailed
    assert "no message" in str(failure("compile", "decoder", ""))


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), RuntimeError("NPU out of memory. Tried to allocate 4 GiB\n more")]
)
def test_a_program_that_catches_a_lack_of_memory_catches_it(error: Exception) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="there is no memory for graph decoder") as caught:
        raise of_a_run(error, "decoder")
    assert isinstance(caught.value, EngineError)
    assert "smaller batches" in str(caught.value)
    assert type(no_memory(error, "decoder")) is OutOfMemory


def test_a_wrong_call_names_the_graph_and_a_failed_run_tells_where_to_look() -> None:
    wrong = of_a_run(ValueError("2 inputs, 3 wanted"), "decoder")
    assert str(wrong).startswith("2 inputs, 3 wanted\n  at      graph decoder")
    ran = of_a_run(RuntimeError("E39999: a task failed"), "decoder")
    assert "failed to run graph decoder: E39999" in str(ran)
    assert "ASCEND_LAUNCH_BLOCKING=1" in str(ran)


def test_an_operator_that_air_sim_lacks_is_no_failed_kernel() -> None:
    ran = of_a_run(RuntimeError("GroupedMatmul node: 12 inputs are not implemented by air-sim"), "decoder")
    assert "GroupedMatmul node: 12 inputs are not implemented" in ran.what
    assert "limit of air-sim" in ran.advice
    assert "synchronize" not in ran.advice


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = EngineError("the graph is closed")
    assert of_a_run(error, "decoder") is error
