"""One self-contained HTML page with pictures of graphs: searched, zoomed and folded by module, at any size.

    page = Page("step")
    page.graphs([picture_of(gm, "as the passes left it")])
    Path("step.html").write_text(page.html())

A page holds what it shows as compact JSON, and a script that draws what is in view on a canvas; nothing is fetched.
`explain` writes one with all views, the Ascend IR drawing one with graphs, the timeline of streams one with lanes.
"""

from __future__ import annotations

from air_graph._hints import bytes_of
from air_graph.page._fx import kind_of, module_of, picture_of, text_of
from air_graph.page._page import Page
from air_graph.page._picture import PageNode, Picture

__all__ = ["Page", "PageNode", "Picture", "bytes_of", "kind_of", "module_of", "picture_of", "text_of"]
