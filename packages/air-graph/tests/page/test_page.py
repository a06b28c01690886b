"""The page, in a browser: every size, both schemes, a desk's and a phone's width."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch.fx import Graph

from air_graph.page import Page, kind_of, module_of, picture_of
from air_graph.testing import browser

aten = torch.ops.aten
SIZES = (13, 700, 3_700, 20_000)
EACH = 100  # nodes of one block

needs_browser = pytest.mark.skipif(browser.find() is None, reason="needs a chromium executable on PATH")


def model(size: int) -> Graph:
    """A chain of blocks of two parts each, with weights, views and residuals: so many nodes."""
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 4)
    block, skip = 0, x
    while len(graph.nodes) < size - 1:
        inside = len(graph.nodes) % EACH
        block += inside == 0
        part = "attention" if inside < EACH // 2 else "mlp.up"
        if inside % 10 == 9 and len(graph.nodes) < size - 2:
            weight = graph.placeholder(f"w{len(graph.nodes)}")
            weight.meta["val"] = torch.empty(4, 4)
            y = graph.call_function(aten.mm.default, (x, weight))
        elif inside % 10 == 4:
            y = graph.call_function(aten.view.default, (x, [2, 4]))
        elif inside == EACH - 1:
            y = graph.call_function(aten.add_.Tensor, (x, skip))
            skip = y
        else:
            y = graph.call_function(aten.relu.default, (x,))
        y.meta["val"] = torch.empty(2, 4)
        y.meta["nn_module_stack"] = {"1": (f"L['self'].blocks.{block}.{part}", object)}
        y.meta["stack_trace"] = (
            f'  File "{__file__}", line {20 + inside}, in forward\n    y = a < b </script>'
        )
        x = y
    graph.output((x,))
    return graph


@functools.cache
def written(size: int) -> str:
    page = Page(f"{size} nodes <b>&amp;")
    notes = {"relu_default": ("a_pass: the old value is read later",)}
    page.graphs([picture_of(model(size), "as it came", notes=notes)])
    page.add("source", "Source")
    return page.html()


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.Browser() as opened:
        yield opened


@pytest.fixture
def tab(request: pytest.FixtureRequest, chromium: browser.Browser, tmp_path: Path) -> Iterator[browser.Tab]:
    size, width, dark = request.param
    path = tmp_path / "page.html"
    path.write_text(written(size), encoding="utf-8")
    opened = chromium.open(path, width=width, dark=dark)
    opened.settle()
    yield opened
    opened.close()


def looks(size: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("tab", [(size, 1280, False)], indirect=True, ids=[f"{size} nodes"])


@needs_browser
@pytest.mark.parametrize(
    "tab", [(size, 1280, False) for size in SIZES], indirect=True, ids=[f"{n} nodes" for n in SIZES]
)
def test_a_picture_of_any_size_fits_both_widths_in_both_schemes_and_the_console_stays_empty(
    tab: browser.Tab, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("first_paint_ms", tab.first_paint_ms)
    record_property("page_bytes", (tmp_path / "page.html").stat().st_size)
    for width in (1280, 390):
        for dark in (False, True):
            tab.show(width=width, dark=dark)
            tab.settle()
            assert tab.overflows == 0
            assert tab.picture(tmp_path / f"page_{width}_{dark}.png").stat().st_size > 3_000
            paper, colours = tab.ask(COLOURS)
            assert colours > 4, "something is drawn"
            assert (paper < 0x80) is dark
    assert tab.complaints == []


COLOURS = """(() => {
  const canvas = document.querySelector("canvas"), seen = new Set();
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return [+getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0], seen.size];
})()"""


@needs_browser
@looks(20_000)
def test_everything_of_20_000_nodes_can_be_unfolded_and_no_two_boxes_of_a_group_overlap(
    tab: browser.Tab,
) -> None:
    tab.ask("void airPage.made.graph.all(true)")
    tab.settle()
    assert tab.ask("airPage.made.graph.items.filter(item => !item.children).length") == 20_000
    clashes = tab.ask("""(() => {
      let clashes = 0;
      const visit = group => {
        const row = [...group.children].sort((a, b) => a.y - b.y || a.x - b.x);
        row.forEach((a, at) => {
          if (a.children) visit(a);
          if (a.x < 0 || a.y < 0 || a.x + a.w > group.w + 1 || a.y + a.h > group.h + 1) clashes++;
          for (let next = at + 1; next < row.length && row[next].y < a.y + a.h; next++)
            if (a.x < row[next].x + row[next].w && row[next].x < a.x + a.w) clashes++;
        });
      };
      visit(airPage.made.graph.tree.root);
      return clashes;
    })()""")
    assert clashes == 0
    assert tab.complaints == []


@needs_browser
@looks(3_700)
def test_a_search_finds_unfolds_and_selects_a_node_and_says_where_it_comes_from(tab: browser.Tab) -> None:
    tab.ask("void document.querySelector('canvas').focus()")
    tab.press("/")
    assert tab.ask("document.activeElement.type") == "search"
    for letter in "mm_default_77":
        tab.press(letter)
    tab.press("Enter")
    tab.settle()
    assert tab.ask("airPage.made.graph.selected.name") == "mm_default_77"
    assert tab.ask("airPage.made.graph.items.includes(airPage.made.graph.selected)"), "it is unfolded"
    told = tab.ask("document.querySelector('.panel').innerText")
    for word in ("aten::mm.default", "float32[2, 4]", "blocks.", "test_page.py:", "32 B", "reads"):
        assert word in told


@needs_browser
@looks(700)
def test_keys_walk_along_edges_and_fold_a_module(tab: browser.Tab) -> None:
    tab.ask("void (airPage.made.graph.all(true), document.querySelector('canvas').focus())")
    tab.press("ArrowDown")
    first = tab.ask("airPage.made.graph.selected.name")
    for _ in range(3):
        tab.press("ArrowDown")
    walked = tab.ask("airPage.made.graph.selected.name")
    assert walked != first
    boxes = tab.ask("airPage.made.graph.items.length")
    tab.press("Enter")
    assert tab.ask("airPage.made.graph.selected.open") is False, "the module around it is folded"
    assert tab.ask("airPage.made.graph.items.length") < boxes
    tab.press("Enter")
    assert tab.ask("airPage.made.graph.items.length") == boxes
    tab.press("Escape")
    assert tab.ask("airPage.made.graph.selected") is None


@needs_browser
@looks(700)
def test_a_line_of_the_program_leads_to_its_nodes_and_back(tab: browser.Tab) -> None:
    tab.ask("void airPage.made.graph.reveal(airPage.made.graph.picture.names.indexOf('relu_default_5'))")
    tab.ask("void document.querySelector('.panel button.link').click()")
    tab.settle()
    assert tab.ask("document.querySelector('[aria-selected=true]').innerText") == "Source"
    marked = tab.ask(
        "[...document.querySelectorAll('#view-source pre')].find(each => each.style.outline).innerText"
    )
    at = tab.ask(
        "airPage.page.sources[airPage.made.graph.picture.source[airPage.made.graph.selected.node]][1]"
    )
    assert marked.strip() == Path(__file__).read_text("utf-8").splitlines()[at - 1].strip()
    tab.ask("void document.querySelector('#view-source button.link').click()")
    assert tab.ask("airPage.made.graph.hits.length") > 1


@needs_browser
@looks(13)
def test_the_scheme_can_be_chosen_and_a_click_selects(tab: browser.Tab) -> None:
    before = tab.ask("getComputedStyle(document.body).backgroundColor")
    tab.ask("void document.getElementById('scheme').click()")
    assert tab.ask("getComputedStyle(document.body).backgroundColor") != before
    x, y = tab.ask("""(() => { const view = airPage.made.graph;
      const item = view.items.find(each => each.name === 'relu_default');
      const box = view.camera.canvas.getBoundingClientRect(), { scale } = view.camera;
      return [box.left + (item.X + item.w / 2 - view.camera.x) * scale,
        box.top + (item.Y + item.h / 2 - view.camera.y) * scale];
    })()""")
    tab.click(x, y)
    assert "the old value is read later" in tab.ask("document.querySelector('.panel').innerText")


def test_the_page_refers_to_nothing_outside_itself_and_no_text_breaks_out_of_it() -> None:
    page = written(13)
    assert not re.findall(r"(?:src|href)\s*=|https?://|@import|url\(", page)
    assert page.count("</script>") == 2, "that of a line of the program is escaped"
    assert "<title>13 nodes &lt;b&gt;&amp;amp;</title>" in page


def test_what_colours_tell_apart_is_read_from_schemas_and_tags() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(64, 4)
    nodes = {
        "heavy": graph.call_function(aten.mm.default, (x, x)),
        "view": graph.call_function(aten.permute.default, (x, [1, 0])),
        "write": graph.call_function(aten.index_copy_.default, (x, 0, x, x)),
        "pointwise": graph.call_function(aten.gelu.default, (x,)),
        "reduce": graph.call_function(aten.sum.default, (x,)),
    }
    nodes["reduce"].meta["val"] = torch.empty(())
    assert {kind: kind_of(node) for kind, node in nodes.items()} == {kind: kind for kind in nodes}
    assert kind_of(x) == "input"


@pytest.mark.parametrize(
    ("recorded", "path"),
    [
        ("L['self'].blocks.0.attention", "blocks.0.attention"),
        ("L['self']", ""),
        ("L['model'].layers", "model.layers"),
        ("L['self']._modules['layers']._modules['3'].mlp", "layers.3.mlp"),
        ("self.layers[2]", "layers.2"),
    ],
)
def test_a_module_has_the_path_that_its_user_wrote(recorded: str, path: str) -> None:
    node = Graph().placeholder("x")
    node.meta["nn_module_stack"] = {"1": (recorded, object)}
    assert module_of(node) == path
