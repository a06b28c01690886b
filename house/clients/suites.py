"""The suites: where the modules of each lie in a checkout that the user gives, and what they need beside it.

Nothing of theirs is in this repository; what is named here are folders and files of their public heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Suite:
    """Test modules of one folder of one checkout."""

    name: str
    checkout: str  # the option that names it
    folder: str
    files: str = "*_test.py"
    without: frozenset[str] = frozenset()
    stub: str = ""  # a module of ours that stands for one that their build makes
    ours: str = ""  # a folder of ours with the tests, which load modules from the checkout
    variable: str = ""  # where these tests find the checkout
    mode: str = ""  # of AIR, in the place of torch's backends; held against `aot_eager` instead of a real one
    calls: bool = False  # each call of an operator is compiled alone with the mode, and the tests stay eager
    flag: str = ""  # a variable that these tests want to be 1


@dataclass(frozen=True)
class Module:
    """One file of tests."""

    suite: Suite
    path: Path
    checkout: Path

    @property
    def name(self) -> str:
        return f"{self.suite.name}/{self.path.stem}"


MODES: Final = ("reduce-overhead", "max-autotune")
#: Need several processes with a card each, or CANN's compiler of kernels.
CARDS: Final = frozenset({"hcom_static_kernel_test.py"})
#: torch's tests compile each test as a whole where it is set.
WHOLE: Final = "PYTORCH_TEST_WITH_AOT_EAGER"
#: torch's tests of eager programs that torch_npu has copies of, for its device.
OF_EAGER: Final = {
    "test": (
        "test_torch.py",
        "test_autograd.py",
        "test_indexing.py",
        "test_view_ops.py",
        "test_shape_ops.py",
        "test_sort_and_select.py",
        "test_type_promotion.py",
    ),
    "test/nn": ("test_*.py",),
}
SUITES: Final = (
    Suite("torchair", "torchair", "tests/smoke", without=CARDS | {"converter_test.py"}),
    Suite("npugraph_ex", "torchair", "npugraph_ex/tests/smoke", without=CARDS),
    Suite("torch_npu", "torch-npu", "test/dynamo", "test_npu*.py"),
    Suite("torch_npu-lazy", "torch-npu", "test/dynamo", "test_torchair_*.py"),
    Suite(
        "vllm-ascend",
        "vllm-ascend",
        "vllm_ascend/compilation",
        ours="house/clients/vllm_ascend",
        variable="AIR_VLLM_ASCEND",
    ),
    Suite("torchair-st", "torchair", "tests/st", "torchair_*_st.py", stub="house.clients.privateuse1"),
    Suite("torchair-st-main", "torchair", "tests/st", "torchair_st.py", stub="house.clients.privateuse1"),
    *(
        Suite(f"inductor-{mode}", "pytorch", "test/inductor", "test_torchinductor.py", mode=mode)
        for mode in MODES
    ),
    *(Suite(f"dynamo-{mode}", "pytorch", "test/dynamo", "test_*.py", mode=mode) for mode in MODES),
    *(
        Suite(f"whole-{mode}", "torch-tests", folder, files, mode=mode, flag=WHOLE)
        for mode in MODES
        for folder, patterns in OF_EAGER.items()
        for files in patterns
    ),
    *(
        Suite(f"calls-{mode}", "op-plugin", folder, "test_*.py", mode=mode, calls=True)
        for mode in MODES
        for folder in ("test/test_base_ops", "test/test_custom_ops")
    ),
)


class NoSuchFolder(Exception):
    """A checkout has not the folder that a suite lies in."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        super().__init__(
            f"--{suite.checkout}: there is no folder {folder}, where the suite {suite.name} lies; "
            f"give the root of a checkout"
        )


def modules(checkouts: Mapping[str, Path], only: str = "") -> Iterator[Module]:
    """The modules of the suites whose checkout was given, those alone that have `only` in their name."""
    for suite in SUITES:
        if suite.checkout not in checkouts:
            continue
        folder = checkouts[suite.checkout] / suite.folder
        if not folder.is_dir():
            raise NoSuchFolder(suite, folder)
        for path in sorted((ROOT / suite.ours if suite.ours else folder).glob(suite.files)):
            module = Module(suite, path, checkouts[suite.checkout])
            if path.name not in suite.without and only in module.name:
                yield module
