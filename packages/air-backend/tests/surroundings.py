"""What a program puts around a call of a compiled model, how it makes the call, and what it does to the model between.

Surroundings are modes, hooks, and levels of autograd that are entered; calls are ways to call it, transforms of
functions among them; events change the model.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.utils import parametrizations, parametrize
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

Step = Callable[..., Any]


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's has no types
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


class Negating(TorchDispatchMode):
    """Changes what operators give, so a call that it does not see gives other numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        return -found if func in (torch.ops.aten.sin.default, torch.ops.aten.tanh.default) else found


class NegatingFunctions(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        return -found if getattr(func, "__name__", "") in ("sin", "tanh", "relu", "gelu") else found


class PassingFunctions(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def restored(change: Callable[[Any], object], value: Any, before: Any) -> Iterator[None]:
    try:
        change(value)
        yield
    finally:
        change(before)


def packing(pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> AbstractContextManager[Any]:
    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def on_floats(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else tensor


SURROUNDINGS: Final[dict[str, Callable[[str], AbstractContextManager[Any]]]] = {
    "no_grad": lambda device: torch.no_grad(),
    "enable_grad": lambda device: torch.enable_grad(),
    "inference_mode": lambda device: torch.inference_mode(),
    "no inference_mode": lambda device: torch.inference_mode(False),
    "autocast": lambda device: torch.autocast(device, torch.bfloat16),
    "autocast off": lambda device: torch.autocast(device, enabled=False),
    "autocast without cache": lambda device: torch.autocast(device, torch.bfloat16, cache_enabled=False),
    "saved on the host": lambda device: torch.autograd.graph.save_on_cpu(),
    "saved copies": lambda device: packing(torch.clone, lambda kept: kept),
    "saved as doubles": lambda device: packing(on_floats(torch.Tensor.double), on_floats(torch.Tensor.float)),
    "saved in lists": lambda device: packing(lambda kept: [kept], lambda kept: kept[0]),
    "no saved hooks": lambda device: torch.autograd.graph.disable_saved_tensors_hooks("none here"),
    "anomalies": lambda device: torch.autograd.detect_anomaly(check_nan=False),
    "writes of saved": lambda device: torch.autograd.graph.allow_mutation_on_saved_tensors(),
    "one thread": lambda device: torch.autograd.set_multithreading_enabled(False),
    "operators counted": lambda device: Counting(),
    "operators changed": lambda device: Negating(),  # type: ignore[no-untyped-call]
    "functions changed": lambda device: NegatingFunctions(),
    "functions passed on": lambda device: PassingFunctions(),
    "default device": lambda device: torch.device(device),
    "flops": lambda device: FlopCounterMode(display=False),
    "random numbers apart": lambda device: torch.random.fork_rng(devices=[]),
    "deterministic": lambda device: restored(torch.use_deterministic_algorithms, True, False),
    "default dtype": lambda device: restored(torch.set_default_dtype, torch.float64, torch.float32),
    "level of forward AD": lambda device: forward_ad.dual_level(),
    "swapped tensors": lambda device: restored(
        torch.__future__.set_swap_module_params_on_conversion, True, False
    ),
    "weights cached": lambda device: parametrize.cached(),
    "profiler": lambda device: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
}


def floats(results: Any) -> list[Tensor]:
    return [one for one in tree_leaves(results) if isinstance(one, Tensor) and one.is_floating_point()]


def total(results: Any) -> Any:
    return sum(one.float().square().sum() for one in floats(results))


def straight(model: nn.Module, step: Step, x: Tensor) -> Any:
    return step(x)


def checkpointed(model: nn.Module, step: Step, x: Tensor) -> Any:
    return checkpoint(step, x, use_reentrant=False)


def checkpointed_from_within(model: nn.Module, step: Step, x: Tensor) -> Any:
    return checkpoint(lambda x: total(step(x)) * 1, x, use_reentrant=True)


def with_other_weights(model: nn.Module, step: Step, x: Tensor) -> Any:
    weights = {name: weight.detach() * 0.5 for name, weight in model.named_parameters()}
    return torch.func.functional_call(
        step if isinstance(step, nn.Module) else model, prefixed(step, weights), (x,)
    )


def prefixed(step: Step, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    wrapped = hasattr(step, "_orig_mod")
    return {f"_orig_mod.{name}": weight for name, weight in weights.items()} if wrapped else weights


def gradient_of_weights(model: nn.Module, step: Step, x: Tensor) -> Any:
    def loss(weights: dict[str, Tensor]) -> Any:
        return total(torch.func.functional_call(step, prefixed(step, weights), (x,)))  # type: ignore[arg-type]

    return torch.func.grad(loss)(dict(model.named_parameters()))


def gradient(model: nn.Module, step: Step, x: Tensor) -> Any:
    return torch.func.grad(lambda x: total(step(x)))(x)


def mapped(model: nn.Module, step: Step, x: Tensor) -> Any:
    return torch.func.vmap(step, randomness="same")(torch.stack([x, x + 1]))


def tangent(model: nn.Module, step: Step, x: Tensor) -> Any:
    return torch.func.jvp(lambda x: total(step(x)), (x,), (torch.ones_like(x),))


def dual(model: nn.Module, step: Step, x: Tensor) -> Any:
    with forward_ad.dual_level():
        found = step(forward_ad.make_dual(x, torch.ones_like(x)))
        return [tuple(forward_ad.unpack_dual(one)) for one in floats(found)]


def gradient_to_differentiate(model: nn.Module, step: Step, x: Tensor) -> Any:
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(total(step(x)), x, create_graph=True)
    return slope


def twice(model: nn.Module, step: Step, x: Tensor) -> Any:
    return [step(x), step(x)]


def fed_back(model: nn.Module, step: Step, x: Tensor) -> Any:
    return step(next(one for one in floats(step(x)) if one.shape == x.shape))


def in_a_thread(model: nn.Module, step: Step, x: Tensor) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, step, x).result()  # torch's settings are in it


CALLS: Final[tuple[Callable[[nn.Module, Step, Tensor], Any], ...]] = (
    straight, straight, straight, straight, checkpointed, checkpointed_from_within, with_other_weights,
    gradient_of_weights, gradient, mapped, tangent, dual, gradient_to_differentiate, twice, fed_back, in_a_thread,
)  # fmt: skip


def layer_of(model: nn.Module) -> nn.Linear:
    found = [one for one in model.modules() if isinstance(one, nn.Linear)]
    return found[0] if found else nn.Linear(4, 4)


def hooked(model: nn.Module) -> None:
    model.register_forward_hook(
        lambda module, args, result: tree_map_only(Tensor, lambda one: one * 2, result)
    )


def hooked_inside(model: nn.Module) -> None:
    layer_of(model).register_forward_pre_hook(lambda module, args: (args[0] + 1,))


def hooked_backward(model: nn.Module) -> None:
    def tripled(module: nn.Module, given: Any, got: Any) -> tuple[Tensor | None, ...]:
        return tuple(None if one is None else one * 3 for one in given)

    layer_of(model).register_full_backward_hook(tripled)


def weight_hooked(model: nn.Module) -> None:
    weight = next(one for one in model.parameters())
    if weight.requires_grad:
        weight.register_hook(lambda slope: slope * 2)


def accumulation_hooked(model: nn.Module) -> None:
    weight = next(one for one in model.parameters())
    if weight.requires_grad:
        weight.register_post_accumulate_grad_hook(lambda one: one.grad.mul_(2))


def spectral(model: nn.Module) -> None:
    layer = layer_of(model)
    if not parametrize.is_parametrized(layer):
        parametrizations.weight_norm(layer)


def plain_again(model: nn.Module) -> None:
    layer = layer_of(model)
    if parametrize.is_parametrized(layer):
        parametrize.remove_parametrizations(layer, "weight")


def frozen(model: nn.Module) -> None:
    for weight in list(model.parameters())[::2]:
        weight.requires_grad_(not weight.requires_grad)


def evaluated(model: nn.Module) -> None:
    model.train(not model.training)


def doubled(model: nn.Module) -> None:
    model.double()


def single(model: nn.Module) -> None:
    model.float()


def loaded(model: nn.Module) -> None:
    model.load_state_dict(
        {
            name: value * 0.5 if value.is_floating_point() else value
            for name, value in model.state_dict().items()
        }
    )


def assigned(model: nn.Module) -> None:
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)


def another_parameter(model: nn.Module) -> None:
    layer = layer_of(model)
    if not parametrize.is_parametrized(layer):
        layer.weight = nn.Parameter(layer.weight.detach() * 2)


def written(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.9)


def moved(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.data = weight.data.clone()


def another_layer(model: nn.Module) -> None:
    for name, one in model.named_children():
        if isinstance(one, nn.Linear):
            setattr(model, name, nn.Sequential(copy.deepcopy(one), nn.Identity()))
            return


def stepped(model: nn.Module) -> None:
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def without_gradients(model: nn.Module) -> None:
    model.zero_grad()


EVENTS: Final[tuple[Callable[[nn.Module], None], ...]] = (
    hooked, hooked_inside, hooked_backward, weight_hooked, accumulation_hooked, spectral, plain_again, frozen,
    evaluated, evaluated, doubled, single, loaded, assigned, another_parameter, written, moved, another_layer, stepped,
    without_gradients,
)  # fmt: skip
