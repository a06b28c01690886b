"""Conditions of captured graphs: a replay runs one branch, by a value that the device computes in that replay."""

from __future__ import annotations

import ctypes

import pytest
import torch

npu = pytest.importorskip("torch_npu").npu

pytestmark = [
    pytest.mark.npu,
    pytest.mark.skipif(
        not hasattr(npu.NPUGraph, "begin_capture_to_if_node"), reason="torch_npu 2.13 has conditional nodes"
    ),
]


def test_a_replay_runs_a_branch_where_its_predicate_is_true(device: str) -> None:
    x, y = torch.ones(4, device=device), torch.zeros(4, device=device)
    npu.synchronize()
    graph = npu.NPUGraph()
    with npu.graph(graph):
        graph.begin_capture_to_if_node(x.sum() > 0)
        y.add_(x)
        graph.end_capture_to_conditional_node()
        z = y * 2
    for value, sum_so_far in ((1.0, 1.0), (-5.0, 1.0), (2.0, 3.0), (-1.0, 3.0)):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [sum_so_far] * 4
        assert z.tolist() == [2 * sum_so_far] * 4
    graph.reset()


def test_a_branch_inside_a_branch_needs_both_predicates(device: str) -> None:
    x, y = torch.ones(2, device=device), torch.zeros(2, device=device)
    npu.synchronize()
    graph = npu.NPUGraph()
    with npu.graph(graph):
        graph.begin_capture_to_if_node(x[0] > 0)
        y.add_(1)
        graph.begin_capture_to_if_node(x[1] > 0)
        y.add_(10)
        graph.end_capture_to_conditional_node()
        graph.end_capture_to_conditional_node()
    for values, expected in (([1.0, 1.0], 11.0), ([1.0, -1.0], 1.0), ([-1.0, 1.0], 0.0)):
        y.zero_()
        x.copy_(torch.tensor(values))
        graph.replay()
        assert y.tolist() == [expected] * 2


def test_streams_of_branches_come_back_with_their_graph(device: str) -> None:
    x = torch.ones(2, device=device)
    npu.synchronize()
    stream = npu.Stream(priority=-1)  # of another pool than those that torch_npu takes for branches
    for _ in range(60):  # 41 streams of 1984 each: without giving them back they would be short
        graph = npu.NPUGraph()
        with npu.graph(graph, stream=stream):
            for _ in range(40):
                graph.begin_capture_to_if_node(x[0] > 0)
                x.add_(1)
                graph.end_capture_to_conditional_node()
        graph.replay()
        graph.reset()
    assert x.tolist() == [2401.0] * 2


class Params(ctypes.Structure):
    """What a conditional task is made of, as the driver takes it."""

    _fields_ = (
        ("handle", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("size", ctypes.c_uint32),
        ("graphs", ctypes.POINTER(ctypes.c_void_p)),
    )


@pytest.mark.parametrize(
    ("kind", "size", "added", "ended"), [(1, 1, 207000, 0), (2, 3, 207000, 0), (0, 2, 0, 107025)]
)
def test_loops_are_refused_and_a_branch_that_is_left_open_fails_the_capture(
    device: str, kind: int, size: int, added: int, ended: int
) -> None:
    driver = ctypes.CDLL("libascendcl.so")
    stream = npu.Stream()
    handle, graph, condition = ctypes.c_void_p(stream.npu_stream), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.aclmdlRICaptureBegin(handle, 2) == 0
    assert driver.aclmdlRICaptureGetInfo(handle, ctypes.byref(ctypes.c_int()), ctypes.byref(graph)) == 0
    assert driver.aclmdlRICondHandleCreate(graph, 0, 1, ctypes.byref(condition)) == 0
    assert (
        driver.aclmdlRIAddCondTask(Params(condition, kind, size, (ctypes.c_void_p * size)()), handle, 0)
        == added
    )
    assert driver.aclmdlRICaptureEnd(handle, ctypes.byref(graph)) == ended
    assert driver.aclmdlRIDestroy(graph) == 0
