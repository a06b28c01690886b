"""What a caller gets: views, clones, guarded tensors, and outputs that alias inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend, executable
from air_aclgraph.errors import InputRefused, StaleOutput


def doubled(x: Tensor) -> tuple[Tensor, ...]:
    return (x * 2,)


def test_a_view_is_the_memory_of_the_capture(device: str) -> None:
    run = executable(doubled, torch.ones(2, device=device), device=device, air__outputs="view")
    run(torch.ones(2, device=device))
    (first,) = run(torch.ones(2, device=device))
    (second,) = run(torch.full((2,), 5.0, device=device))
    assert first is second
    assert first.tolist() == [10.0, 10.0]


def test_W09_a_clone_survives_the_next_call(device: str) -> None:
    run = executable(
        doubled, torch.ones(2, device=device), device=device, debug__aclgraph__enable_output_clone=True
    )
    kept = [run(torch.full((2,), float(n), device=device))[0] for n in range(4)]
    assert [t.tolist() for t in kept] == [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]


@pytest.mark.parametrize("outputs", ["kept", "clone", "view", "guarded"])
def test_N25_a_value_that_is_returned_twice_is_one_object(outputs: str, device: str) -> None:
    def twice(x: Tensor) -> tuple[Any, ...]:
        y = x * 2
        z = y + 1
        return z, x, y, z, x, y.t(), y

    run = executable(twice, torch.ones(2, 2, device=device), device=device, air__outputs=outputs)
    for step in range(8):  # "kept" lends from the sixth call on
        x = torch.full((2, 2), float(step), device=device)
        made = run(x)
        assert made[3] is made[0]
        assert made[6] is made[2]
        assert made[1] is made[4] is x
        assert made[5]._base is made[2] or made[5].data_ptr() == made[2].data_ptr()
        for got, wanted in zip(made, twice(x), strict=True):
            assert torch.equal(got, wanted)
        del made, got
    if outputs == "kept":
        assert run.explain()["keys"][0]["outputs"] == "lent"


@pytest.mark.parametrize("outputs", ["kept", "clone"])
def test_N25_views_without_elements_are_copied_with_what_they_share(outputs: str, device: str) -> None:
    """Such a view may begin behind the end of its storage."""

    def pieces(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y[..., 1:], y.t()

    run = executable(pieces, torch.empty(0, 5, device=device), device=device, air__outputs=outputs)
    for _ in range(8):
        made, expected = run(torch.empty(0, 5, device=device)), pieces(torch.empty(0, 5, device=device))
        for got, wanted in zip(made, expected, strict=True):
            assert got.shape == wanted.shape
            assert got.stride() == wanted.stride()
            assert got.storage_offset() == wanted.storage_offset()


def test_A26_clones_that_shared_memory_share_it_still() -> None:
    def pieces(x: Tensor) -> tuple[Tensor, ...]:
        z = x * 2
        return z, z[1:], z.t()

    run = executable(pieces, torch.ones(3, 2), air__outputs="clone")
    for _ in range(3):
        whole, rest, turned = run(torch.ones(3, 2))
        whole[1, 0] = 9
        assert rest[0, 0] == 9
        assert turned[0, 1] == 9
        assert turned.stride() == (1, 2)


def test_N12_a_guarded_output_names_both_calls_when_it_is_stale(device: str) -> None:
    run = executable(doubled, torch.ones(2, device=device), device=device, air__outputs="guarded")
    for _ in range(2):
        run(torch.ones(2, device=device))
    (kept,) = run(torch.ones(2, device=device))
    assert kept.tolist() == [2.0, 2.0]
    run(torch.ones(2, device=device))
    with pytest.raises(
        StaleOutput, match=r"output 'mul' of call \d+ of doubled was overwritten by call \d+"
    ) as caught:
        kept + 1
    assert caught.value.overwritten == caught.value.produced + 1
    assert "outputs='clone'" in caught.value.advice
    assert kept.shape == (2,)
    assert repr(kept) == "<overwritten output 'mul'>"


def test_the_advice_of_a_stale_output_helps(device: str) -> None:
    run = executable(doubled, torch.ones(2, device=device), device=device, air__outputs="guarded")
    kept = [run(torch.ones(2, device=device))[0].clone() for _ in range(4)]
    assert all(t.tolist() == [2.0, 2.0] for t in kept)


def test_a_guarded_output_of_the_last_call_is_an_ordinary_tensor() -> None:
    run = executable(doubled, torch.ones(2), air__outputs="guarded")
    for _ in range(3):
        (out,) = run(torch.ones(2))
        assert type(out) is Tensor
        assert out.sum() == 4


def test_W04_an_output_that_is_an_input_is_the_callers_own_tensor(device: str) -> None:
    def parts(x: Tensor) -> tuple[Tensor, ...]:
        return x, x[1:], x + 1

    run = executable(parts, torch.randn(3, 2, device=device), device=device)
    for _ in range(4):
        x = torch.randn(3, 2, device=device)
        same, rest, more = run(x)
        assert same is x
        assert rest.data_ptr() == x[1:].data_ptr()
        torch.testing.assert_close(more, x + 1)
        rest.zero_()
        assert x[1:].abs().sum() == 0


def test_an_alias_through_torch_compile_writes_the_callers_tensor(device: str) -> None:
    compiled = torch.compile(lambda x: (x.view(-1), x * 2), backend=Backend(device))
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(3, 2, device=device)
            flat, twice = compiled(x)
            torch.testing.assert_close(twice, x * 2)
            flat.zero_()
            assert x.abs().sum() == 0


def test_constants_and_numbers_come_out_as_they_are() -> None:
    run = executable(lambda x: (x + 1, 7, None, "a"), torch.ones(2))
    for _ in range(3):
        assert run(torch.ones(2))[1:] == (7, None, "a")


def test_outputs_keep_strides_that_are_not_contiguous() -> None:
    run = executable(lambda x: (x.t() * 2, x[:, ::2]), torch.randn(3, 4), air__outputs="clone")
    for _ in range(3):
        x = torch.randn(3, 4)
        turned, every_other = run(x)
        assert turned.stride() == (x.t() * 2).stride()
        assert every_other.stride() == x[:, ::2].stride()
        torch.testing.assert_close(every_other, x[:, ::2])


def test_W02_W03_W04_an_alias_of_an_input_follows_each_callers_tensor_in_every_key(device: str) -> None:
    def halves(x: Tensor) -> tuple[Tensor, ...]:
        return x[1:], x.sum()

    run = executable(halves, torch.ones(3, 2, device=device), device=device, dynamic=True)
    kept = []
    for number, rows in enumerate((3, 5, 3, 5, 5, 3, 3)):
        x = torch.full((rows, 2), float(number), device=device)
        rest, total = run(x)
        kept.append((number, x, rest))
        assert total.item() == 2 * rows * number
    for number, x, rest in kept:
        assert rest.data_ptr() == x[1:].data_ptr()
        assert x.eq(number).all(), "no later call writes a tensor of an earlier one"
    stats = run.stats()
    assert stats["copies"] == stats["replays"], "one copy per replay: never a copy of an alias on top"


def test_W03_with_clone_input_off_an_aliased_input_is_never_copied(device: str) -> None:
    x = torch.ones(3, 2, device=device)
    run = executable(lambda x: (x[1:], x.sum()), x, device=device, debug__aclgraph__clone_input=False)
    for number in range(4):
        x.fill_(number)
        rest, total = run(x)
        assert rest.data_ptr() == x[1:].data_ptr()
        assert total.item() == 6 * number
    assert run.stats()["copies"] == 0


def test_clones_of_values_that_share_no_memory_share_none(device: str) -> None:
    run = executable(lambda x: (x + 1, x * 2, (x * 3)[1:]), torch.ones(3, device=device), device=device,
                     air__outputs="clone")  # fmt: skip
    for _ in range(3):
        more, twice, rest = run(torch.ones(3, device=device))
        assert len({t.untyped_storage().data_ptr() for t in (more, twice, rest)}) == 3
        assert [t.storage_offset() for t in (more, twice, rest)] == [0, 0, 1]


def test_clones_of_conjugated_values_are_conjugated() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        z = torch.complex(x, x * 2)
        return z.conj(), (z + 1).conj(), z.conj().imag

    run = executable(function, torch.ones(3), air__outputs="clone")
    for _ in range(3):
        x = torch.randn(3)
        for found, expected in zip(run(x), function(x), strict=True):
            assert torch.equal(found, expected)
            assert (found.is_conj(), found.is_neg()) == (expected.is_conj(), expected.is_neg())


@pytest.mark.parametrize("outputs", ["kept", "clone", "view", "guarded"])
def test_results_of_one_memory_are_negated_and_conjugated_each_by_itself(outputs: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        z = torch.complex(x, x * 2)
        plain = torch.complex(x * 3, x)
        return (
            z.conj().imag,
            z.real,
            torch.view_as_real(z),
            plain.conj(),
            plain.real,
            torch.view_as_real(plain),
        )

    run = executable(function, torch.ones(3), air__outputs=outputs)
    for seed in range(12):  # copied, and lent later on
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        for found, expected in zip(run(x), function(x), strict=True):
            assert torch.equal(found, expected)
            assert (found.is_conj(), found.is_neg()) == (expected.is_conj(), expected.is_neg())
            assert found.stride() == expected.stride()
            assert (found._base is None) or outputs in ("view", "guarded")


@pytest.mark.parametrize(
    "function",
    [lambda x: (x.t_() * 2,), lambda x: (x.add_(1).unsqueeze_(0) * 2,)],
    ids=["itself", "after a write"],
)
def test_an_input_that_is_turned_in_place_is_refused(function: Callable[..., Any], device: str) -> None:
    with pytest.raises(InputRefused, match="changes the sizes or strides of input 'x_1' itself"):
        executable(function, torch.ones(2, 3, device=device), device=device)


COMPLEX_VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "conj": lambda x: x.conj(),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "imag of conj": lambda x: x.conj().imag,
    "part of conj": lambda x: x.conj()[1:],
}


@pytest.mark.parametrize("view", COMPLEX_VIEWS.values(), ids=COMPLEX_VIEWS.keys())
@pytest.mark.parametrize("lies", ["dense", "sliced", "turned"])
def test_N25_views_of_complex_inputs_keep_their_meaning(view: Callable[[Tensor], Tensor], lies: str) -> None:
    def inputs(scale: float) -> Tensor:
        base = torch.complex(torch.arange(24.0), torch.arange(24.0) - 7).reshape(4, 6) * scale
        return {"dense": base, "sliced": base[1:, ::2], "turned": base.t()}[lies]

    run = torch.compile(lambda x: (view(x), x * 2), backend=Backend())
    for scale in (1.0, 2.0, 3.0):
        x = inputs(scale)
        found, expected = run(x)[0], view(x)
        assert torch.equal(found, expected)
        assert (found.is_conj(), found.is_neg()) == (expected.is_conj(), expected.is_neg())
        assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
        assert found.data_ptr() == expected.data_ptr()


def test_N25_a_part_of_a_complex_input_that_holds_elements_twice_is_found_by_autograd() -> None:
    def part(x: Tensor) -> Tensor:
        return x[:, : x.shape[1] // 2].imag[1:]

    x = torch.complex(torch.arange(8.0), -torch.arange(8.0)).reshape(1, 2, 2, 2).expand(2, 2, 2, 2)
    found = torch.compile(part, backend=Backend(), dynamic=True)(x)
    assert torch.equal(found, part(x))
    assert found.data_ptr() == part(x).data_ptr()


def test_N25_a_complex_part_of_a_real_input_is_found_by_autograd() -> None:
    def part(x: Tensor) -> Tensor:
        return torch.view_as_complex(x.mT.chunk(2, -1)[1]).t()

    x = torch.arange(24.0).reshape(6, 4).t()
    with torch.no_grad():
        found = torch.compile(part, backend=Backend(), dynamic=True)(x)
    assert torch.equal(found, part(x))
    assert found.data_ptr() == part(x).data_ptr()


@pytest.mark.parametrize(
    ("held", "read"),
    [
        (torch.float8_e4m3fn, torch.uint8),
        (torch.float8_e5m2, torch.int32),
        (torch.float8_e8m0fnu, torch.uint8),
        (torch.float8_e4m3fn, torch.complex64),
        (torch.bfloat16, torch.complex64),
    ],
    ids=str,
)
def test_N25_an_input_and_a_result_are_returned_as_the_bytes_of_another_type(
    held: torch.dtype, read: torch.dtype
) -> None:
    def bits(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        narrow = y.to(held)
        return x[1:].view(read), narrow, narrow.view(read)

    run = torch.compile(bits, backend=Backend())
    y = torch.arange(32.0).reshape(4, 8)
    x = y.to(held)
    for found, expected in zip(run(x, y), bits(x, y), strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))
    assert run(x, y)[0].data_ptr() == x[1:].data_ptr()


@pytest.mark.parametrize("dtype", [torch.int16, torch.float64], ids=["smaller", "larger"])
def test_N25_a_part_of_an_input_is_another_type_whatever_the_strides_of_the_input(dtype: torch.dtype) -> None:
    def bits(x: Tensor) -> Tensor:
        return x.unbind(1)[1].view(dtype)

    run = torch.compile(bits, backend=Backend())
    for _ in range(3):
        x = torch.arange(30.0).reshape(5, 6)[1:].t()
        assert torch.equal(run(x), bits(x))
        assert run(x).data_ptr() == bits(x).data_ptr()
        assert (run(x).stride(), run(x).storage_offset()) == (bits(x).stride(), bits(x).storage_offset())


@pytest.mark.parametrize("outputs", ["kept", "clone"])
def test_N25_results_of_one_memory_count_their_versions_together(outputs: str, device: str) -> None:
    """As in eager: autograd refuses a value that it saved when another tensor of that memory was written."""

    def several(x: Tensor) -> tuple[Any, ...]:
        y = torch.complex(x * 2, x)
        return y, y.detach(), y[0], torch.view_as_real(y), y.conj()

    x = torch.ones(2, 2, device=device)
    run = executable(several, x, device=device, air__outputs=outputs)
    for _ in range(8):  # "kept" lends from the sixth call on
        made = run(x)
        before = [result._version for result in made]
        made[2].zero_()
        assert [result._version for result in made] == [version + 1 for version in before]
        del made
