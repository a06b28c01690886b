"""The page of `explain` in a browser: models of 13 to 20,000 nodes, both schemes, a desk's and a phone's width."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import CompilerConfig, Explanation, explain, scope
from air_backend.demo._llama import Llama, LlamaSize
from air_graph.testing import browser

VIEWS = ["summary", "graph", "lanes", "memory", "passes", "source", "tree"]
LAYERS = {13: 0, 700: 6, 3_700: 34, 20_000: 186}
"""Nodes, about, and the layers of the Llama that has so many; the smallest is `step`."""
SMALL = [13, 700]
LARGE = [pytest.param(size, marks=pytest.mark.slow) for size in (3_700, 20_000)]

pytestmark = pytest.mark.skipif(browser.find() is None, reason="needs a chromium executable on PATH")


def step(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    y = torch.relu(x + 1)
    cache.index_copy_(0, at, y)
    z = torch.sigmoid(y) * y
    return torch.cat((z, cache)).sum(0)


def explained(mode: str, size: int) -> Explanation:
    config = CompilerConfig()
    config.set("mode", mode)
    if not LAYERS[size]:
        return explain(
            step, torch.zeros(8, 4), torch.randn(2, 4), torch.tensor([1, 5]), compiler_config=config
        )
    torch.manual_seed(0)
    shape = LlamaSize(layers=LAYERS[size], hidden=32, heads=2, kv_heads=1, feed_forward=64, cache_length=32)
    with torch.no_grad():
        return explain(
            Llama(shape).eval(),
            torch.zeros(1, 1, dtype=torch.long),
            torch.tensor([3]),
            compiler_config=config,
        )


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.Browser() as opened:
        yield opened


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("size", [*SMALL, *LARGE])
def test_every_view_fits_both_widths_in_both_schemes_and_the_console_stays_empty(
    chromium: browser.Browser, tmp_path: Path, record_property: Any, size: int, mode: str
) -> None:
    path = explained(mode, size).save(tmp_path / "report.html")
    record_property("page_bytes", path.stat().st_size)
    assert path.stat().st_size < 5_000_000 * max(1, size // 4_000)
    tab = chromium.open(path)
    record_property("first_paint_ms", tab.first_paint_ms)
    for width in (1280, 390):
        for dark in (False, True):
            tab.show(width=width, dark=dark)
            assert ["summary", *tab.ask("airPage.page.views.map(view => view.id)")] == VIEWS
            for view in VIEWS:
                tab.ask(f"void airPage.open('{view}')")
                tab.settle()
                assert tab.overflows == 0, view
                assert tab.picture(tmp_path / f"{view}_{width}_{dark}.png").stat().st_size > 3_000
                tab.ask(
                    "void document.querySelector(`#view-${location.hash.slice(1)} details`)?.toggleAttribute('open')"
                )
    assert tab.complaints == []
    tab.close()


def test_N07_the_summary_groups_refusals_by_reason_and_line_and_leads_to_node_and_line(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    report = explained("reduce-overhead", 700)
    tab = chromium.open(report.save(tmp_path / "report.html"))
    rows = tab.ask(
        "[...document.querySelectorAll('#view-summary h2')].at(-2).nextElementSibling.nextElementSibling"
        ".querySelectorAll('tbody tr').length"
    )
    passes = report.data["graphs"][0]["passes"]
    refusals = [each for done in passes for each in done["refusals"]]
    groups = {(each["reason"], each["source"]) for each in refusals}
    assert rows == len(groups)
    assert len(groups) * 4 < len(refusals)
    text = tab.ask("document.querySelector('#view-summary').innerText")
    for word in ("What ran where", "inputs copied per call", "2 · 16 B", "Perfetto", "Netron", "captures"):
        assert word in text
    node = tab.ask(
        "(() => { const b = document.querySelector('[data-find]'); b.click(); return b.dataset.find })()"
    )
    tab.settle()
    assert tab.ask("airPage.made.graph.selected.name").startswith(node)
    assert "the " in tab.ask("document.querySelector('.panel ul').innerText"), "its refusals are told"
    tab.ask("void (airPage.open('summary'), document.querySelector('[data-line]').click())")
    assert tab.ask("document.querySelector('[aria-selected=true]').innerText") == "Source"
    assert tab.complaints == []


def test_the_memory_of_the_pool_has_its_peak_and_what_makes_it(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    def function(x: Tensor) -> Tensor:
        wide = x.repeat(64)
        return wide.sin().sum()

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    report = explain(function, torch.randn(1024), compiler_config=config)
    tab = chromium.open(report.save(tmp_path / "report.html"))
    tab.ask("void airPage.open('memory')")
    told = tab.ask("document.querySelector('#view-memory').innerText")
    assert "256 KiB" in told
    assert "wide = x.repeat(64)" in told
    live = tab.ask("airPage.made.memory.picture.live")
    assert max(live) == 64 * 1024 * 4 + 4, "the wide value, which sin fills again, and the sum of it"


def test_a_pass_has_what_it_changed_before_and_after(chromium: browser.Browser, tmp_path: Path) -> None:
    tab = chromium.open(explained("reduce-overhead", 13).save(tmp_path / "report.html"))
    tab.ask("void airPage.open('passes')")
    tab.ask(
        "void [...document.querySelectorAll('#view-passes details')]"
        ".find(each => each.innerText.includes('reinplace_input_mutated')).setAttribute('open', '')"
    )
    tab.settle()
    before, after = tab.ask(
        "['del', 'ins'].map(kind => document.querySelector(`#view-passes ${kind}`).innerText)"
    )
    assert "aten.index_copy.default" in before
    assert "aten.index_copy_.default" in after


@pytest.mark.filterwarnings("ignore::air_streams.StreamRaceWarning")
def test_streams_are_lanes_of_the_page_with_their_findings(chromium: browser.Browser, tmp_path: Path) -> None:
    def two_streams(x: Tensor) -> Tensor:
        y = torch.sin(x)
        with scope.npu_stream_switch("1"):
            z = torch.cos(y)
        return y + z

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    tab = chromium.open(
        explain(two_streams, torch.randn(4), compiler_config=config).save(tmp_path / "report.html"), width=390
    )
    tab.ask("void document.querySelector('[data-open=lanes]').click()")
    assert tab.ask("airPage.made.lanes.picture.lanes.map(lane => lane.name)") == [
        "entry stream",
        "stream '1'",
    ]
    assert "race" in tab.ask("document.querySelector('#view-lanes table').innerText")
    assert tab.overflows == 0


def test_tabs_are_walked_by_keys(chromium: browser.Browser, tmp_path: Path) -> None:
    tab = chromium.open(explained("max-autotune", 13).save(tmp_path / "report.html"))
    tab.ask("void document.querySelector('[role=tab]').focus()")
    seen = []
    for _ in VIEWS:
        seen.append(tab.ask("document.activeElement.dataset.id"))
        tab.press("ArrowRight")
    assert seen == VIEWS
    titles = tab.ask("airPage.page.views[0].pictures.map(picture => picture.title)")
    assert any(title.endswith("Ascend IR") for title in titles)


@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_pieces_and_what_runs_eagerly_between_them_are_in_the_summary(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    library = torch.library.Library("air_backend_page", "FRAGMENT")
    library.define("untranslated(Tensor x) -> Tensor")
    library.impl("untranslated", lambda x: x * 3, "CPU")
    library.impl("untranslated", torch.empty_like, "Meta")
    config = CompilerConfig()
    config.mode = "max-autotune"
    config.air.unsupported = "eager"
    report = explain(
        lambda x: torch.ops.air_backend_page.untranslated(x + 1) * 2, torch.randn(4), compiler_config=config
    )
    tab = chromium.open(report.save(tmp_path / "report.html"))
    facts = tab.ask(
        "[...document.querySelectorAll('.facts li')].map(each => each.innerText.replace('\\n', ' '))"
    )
    assert "2 pieces" in facts
    assert "1 operators run eagerly" in facts
    text = tab.ask("document.querySelector('#view-summary').innerText")
    assert "neither a converter nor a decomposition" in text
    assert "untranslated(x + 1) * 2" in text
