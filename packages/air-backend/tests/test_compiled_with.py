"""A function that is compiled already is looked into as it is compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import CompilerConfig, bisect, errors, explain, get_npu_backend, npugraph_ex


class Doubles(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def adds(x: Tensor) -> Tensor:
    return x + 1


def in_place(**how: Any) -> Any:
    module = Doubles()
    module.compile(**how)
    return module


def by_forward(**how: Any) -> Any:
    module: Any = Doubles()
    module.forward = torch.compile(module.forward, **how)
    return module


def by_class(**how: Any) -> Any:
    return type("Compiled", (Doubles,), {"forward": torch.compile(Doubles.forward, **how)})()


WAYS: dict[str, Callable[..., Any]] = {
    "function": lambda **how: torch.compile(adds, **how),
    "module": lambda **how: torch.compile(Doubles(), **how),
    "method": lambda **how: torch.compile(Doubles().forward, **how),
    "method of a class": lambda **how: by_class(**how).forward,
    "forward": by_forward,
    "class": by_class,
    "in place": in_place,
}


def explained(function: Any, *args: Any, **kwargs: Any) -> tuple[str, str, str]:
    """Whose configuration it is, the executor, and what the option `outputs` is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.CompiledByAnother)
        data: Any = explain(function, *args, **kwargs).data
    (graph,) = data["graphs"]
    return (
        data["configuration"],
        graph["executor"],
        graph[graph["executor"]].get("options", {}).get("air.outputs"),
    )


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_explain_takes_mode_and_options_of_torch_compile(way: str, called: bool) -> None:
    options = {"mode": "reduce-overhead", "air.outputs": "clone"}
    compiled = WAYS[way](backend="air", options=options)
    if called:
        compiled(torch.ones(4))
    assert explained(compiled, torch.ones(4)) == ("that of torch.compile", "reduce-overhead", "clone")


def test_explain_takes_the_configuration_of_a_backend_with_options_on_top() -> None:
    config = CompilerConfig.preset("reduce-overhead")
    backend = get_npu_backend(compiler_config=config)
    assert explained(torch.compile(adds, backend=backend), torch.ones(4))[1] == "reduce-overhead"
    more = torch.compile(adds, backend=backend, options={"air.outputs": "clone"})
    assert explained(more, torch.ones(4))[1:] == ("reduce-overhead", "clone")
    other = npugraph_ex.get_npu_backend(compiler_config=npugraph_ex.CompilerConfig())
    assert explained(torch.compile(adds, backend=other), torch.ones(4))[1] == "reduce-overhead"


def test_explain_takes_the_decompositions_of_a_backend_and_whether_sizes_are_open() -> None:
    backend = get_npu_backend(
        custom_decompositions={torch.ops.aten.add.Tensor: lambda x, y: torch.sub(x, -y)}
    )
    report = explain(torch.compile(adds, backend=backend), torch.ones(4))
    assert "sub" in str(report.data["graphs"][0]["converters"])
    open_sizes: Any = explain(torch.compile(adds, backend="air", dynamic=True), torch.ones(4)).data
    known_sizes: Any = explain(adds, torch.ones(4)).data
    assert open_sizes["graphs"][0]["nodes"] > known_sizes["graphs"][0]["nodes"], "a size is an input"


def test_a_configuration_that_is_given_comes_first() -> None:
    compiled = torch.compile(adds, backend="air", mode="max-autotune")
    config = CompilerConfig.preset("reduce-overhead")
    assert explained(compiled, torch.ones(4), compiler_config=config)[:2] == (
        "given to this call",
        "reduce-overhead",
    )
    assert explained(adds, torch.ones(4))[0] == "the default"


@pytest.mark.parametrize("call", [explain, bisect])
def test_a_function_of_another_backend_is_compiled_by_the_default_with_a_warning(call: Any) -> None:
    for backend, name in (
        ("inductor", "inductor"),
        ("aot_eager", "aot_eager"),
        (lambda gm, inputs: gm, "<lambda>"),
    ):
        with pytest.warns(
            errors.CompiledByAnother, match=f"compiled with '{name}'; {call.__name__} uses"
        ) as heard:
            call(torch.compile(adds, backend=backend), torch.ones(4))
        assert heard[0].filename == __file__


@pytest.mark.parametrize("call", [explain, bisect])
@pytest.mark.parametrize("function", [torch.nn.Linear(4, 4), torch.compile(torch.nn.Linear(4, 4)), adds])
@pytest.mark.parametrize("word", ["mode", "options", "backend"])
def test_a_word_of_torch_compile_is_refused_with_what_to_give(call: Any, function: Any, word: str) -> None:
    with pytest.raises(
        errors.NotAParameter, match=rf"(?s){call.__name__}\({word}=.*compiler_config="
    ) as raised:
        call(function, torch.ones(4), **{word: "reduce-overhead"})
    assert isinstance(raised.value, TypeError)


def test_a_function_may_have_a_parameter_of_such_a_name() -> None:
    def function(x: Tensor, mode: str) -> Tensor:
        return x + len(mode)

    assert explained(function, torch.ones(2), mode="nearest")[0] == "the default"


def test_bisect_compares_a_compiled_function_with_eager() -> None:
    def wrong(x: Tensor, y: Tensor) -> Tensor:
        return x - y

    backend = get_npu_backend(custom_decompositions={torch.ops.aten.add.Tensor: wrong})
    verdict = bisect(torch.compile(adds, backend=backend), torch.ones(4))
    assert not verdict.right
