"""What the graph engine did not do, as errors: what it was asked, for which graph, in which words it refused."""

from __future__ import annotations

from air_geir.errors import CompilationFailed, EngineError, OutOfMemory

_LOG = "ASCEND_GLOBAL_LOG_LEVEL=1 shows the engine's own log"
_BROKEN_RULES = f"air_geir.verify names broken rules; {_LOG}"
_EARLIER_KERNEL = (
    "torch.npu.synchronize() tells whether a kernel before it failed, ASCEND_LAUNCH_BLOCKING=1 names it"
)
_OF_AIR_SIM = "not implemented by air-sim"
_ELSEWHERE = "that is a limit of air-sim, not of the graph: mode='reduce-overhead' calls the kernels of eager torch_npu"


def failure(doing: str, graph: str, said: str, *, advice: str = _BROKEN_RULES) -> EngineError:
    """The engine's words, with what was being done; the lines after the first one say where."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("frame #")]
    kind = CompilationFailed if doing == "compile" else EngineError
    return kind(
        f"the graph engine failed to {doing} graph {graph}: {lines[0] if lines else 'no message'}",
        where="\n          ".join(lines[1:8]) or None,
        advice=advice,
    )


def no_memory(error: Exception, graph: str) -> OutOfMemory:
    """The device has no room for what a graph needs."""
    return OutOfMemory(
        f"there is no memory for graph {graph}: {str(error).partition(chr(10))[0]}",
        advice="free tensors, take smaller batches, or close graphs that are no longer called",
    )


def of_a_run(error: Exception, graph: str) -> EngineError:
    """What a run threw, with what to do about it."""
    if isinstance(error, EngineError):
        return error
    if isinstance(error, MemoryError) or "out of memory" in str(error):
        return no_memory(error, graph)
    if isinstance(error, ValueError):
        return EngineError(
            str(error), where=f"graph {graph}", advice="call it with tensors as in its first call"
        )
    advice = _ELSEWHERE if _OF_AIR_SIM in str(error) else f"{_EARLIER_KERNEL}; {_LOG}"
    return failure("run", graph, str(error).strip(), advice=advice)
