"""What a kernel may ask of its operator, and functions of torch that are kernels as they are."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from air_geir.errors import EngineError
from air_geir.reference.kernels import Operator, kernel_for
from air_geir.types import DataType


def operator(**attrs: object) -> Operator:
    return Operator("Any", "here", attrs, 1)


def test_text_is_text_also_where_a_file_holds_bytes() -> None:
    assert operator(mode=b"tanh").attr("mode") == operator(mode="tanh").attr("mode") == "tanh"


def test_attributes_become_arguments_of_their_own_or_of_another_name() -> None:
    given = operator(dim=1, alpha1=0.5, dst_type=DataType.FLOAT16.api)
    assert given.keywords("dim alpha=alpha1 dtype=type(dst_type)") == {
        "dim": 1, "alpha": 0.5, "dtype": torch.float16,
    }  # fmt: skip


def test_an_attribute_that_is_missing_is_an_error_that_names_the_node() -> None:
    with pytest.raises(EngineError, match=r"needs attribute 'dim'.*\n.*node here"):
        operator().keywords("dim")


def test_a_function_of_torch_takes_its_attributes_as_keywords() -> None:
    found = kernel_for("Celu")
    assert found is not None
    x = torch.tensor([-2.0, 0.0, 3.0])
    torch.testing.assert_close(found.factory(operator(alpha1=0.7))(x), F.celu(x, 0.7))
