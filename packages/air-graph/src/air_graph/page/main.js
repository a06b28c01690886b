// Tabs, the scheme, and what one view asks of another. A view is made when it is first looked at.
const MAKERS = { graph: GraphView, lanes: LanesView, memory: MemoryView, passes: PassesView, source: SourceView, tree: TreeView };
const made = {}, tabs = document.getElementById("tabs"), views = document.getElementById("views");

function open(id, focus = false) {
  for (const tab of tabs.children) {
    const chosen = tab.dataset.id === id;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) tab.focus();
  }
  for (const section of views.children) section.hidden = section.id !== `view-${id}`;
  const view = page.views.find((each) => each.id === id);
  if (view && !made[id]) made[id] = new MAKERS[view.kind](document.getElementById(`view-${id}`), view);
  history.replaceState(null, "", `#${id}`);
  return made[id];
}

function showSource(index) { open("source").show(index); }

function searchGraph(text) {
  const graphs = page.views.find((each) => each.kind === "graph");
  if (!graphs) return;
  const view = open(graphs.id);
  view.search.value = text;
  view.find(text);
  view.next(1);
}

function start() {
  const summary = document.getElementById("view-summary"), known = [];
  if (summary.childElementCount) known.push(["summary", "Summary"]);
  else summary.remove();
  for (const view of page.views) {
    known.push([view.id, view.title]);
    views.append(h("section", { id: `view-${view.id}`, role: "tabpanel", hidden: true, "aria-labelledby": `tab-${view.id}` }));
  }
  tabs.append(...known.map(([id, title]) => h("button", { type: "button", role: "tab", id: `tab-${id}`, "data-id": id, "aria-controls": `view-${id}`, onclick: () => open(id) }, title)));
  tabs.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const at = known.findIndex(([id]) => id === event.target.dataset.id);
    open(known[(at + by + known.length) % known.length][0], true);
  });
  document.addEventListener("click", (event) => {
    const asked = event.target.closest("[data-find], [data-line], [data-open]")?.dataset;
    if (asked?.find) searchGraph(asked.find);
    else if (asked?.line) showSource(+asked.line);
    else if (asked?.open) open(asked.open, true);
  });
  document.getElementById("scheme").addEventListener("click", () => {
    const root = document.documentElement, dark = root.dataset.scheme ? root.dataset.scheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.scheme = dark ? "light" : "dark";
    document.dispatchEvent(new Event("schemechange"));
  });
  const asked = location.hash.slice(1);
  open(known.some(([id]) => id === asked) ? asked : known[0][0]);
}

start();
window.airPage = { page, made, open };
