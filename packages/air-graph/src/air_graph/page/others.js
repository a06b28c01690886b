// Memory of the pool over the graph, passes with before and after, lines of the program, and everything else as a tree.
class MemoryView {
  constructor(host, view) {
    this.pictures = view.pictures;
    const canvas = h("div", { class: "canvas low" });
    this.said = h("p");
    this.panel = h("p", { class: "soft", "aria-live": "polite" }, "Move over the picture, or use the arrows, to see what is alive at a node.");
    this.table = h("div", { class: "scroll" });
    host.append(h("div", { class: "tools" }, chooser(this.pictures, (at) => this.open(at))), this.said, canvas, this.panel, h("h2", null, "Alive at the peak"), this.table);
    this.camera = new Camera(canvas, "Memory over the graph; left and right move", (...given) => this.draw(...given), {
      axis: "x", hover: (x) => this.tell(Math.floor(x)), click: (x) => this.tell(Math.floor(x)), key: (event) => {
        if (event.key === "0") this.fit();
        else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.tell(this.chosen + (event.key === "ArrowLeft" ? -1 : 1));
        else return false;
        return true;
      } });
    this.open(0);
  }
  open(at) { // `largest` has the name of a node, its bytes, and its line
    this.picture = this.pictures[at];
    const { live, peak, text, largest } = this.picture;
    this.most = Math.max(1, ...[live[peak] ?? 0]);
    this.chosen = peak;
    this.said.textContent = text;
    const body = h("tbody"), row = ([node, size, source]) => h("tr", null, h("td", { class: "n" }, bytes(size)), h("td", null, h("button", { type: "button", class: "link", onclick: () => searchGraph(node) }, node)), h("td", null, sourceLink(source)));
    this.table.replaceChildren(h("table", null, h("thead", null, h("tr", null, h("th", { class: "n" }, "bytes"), h("th", null, "made by"), h("th", null, "line"))), body), more(largest, row, body, 30));
    this.camera.least = 0.001;
    this.camera.most = 80;
    this.fit();
  }
  fit() { this.camera.fit(0, 0, Math.max(1, this.picture.live.length), 1, 80, 0); }
  draw(context, camera, colour) {
    const { live, peak } = this.picture, { x, scale, width, height } = camera, floor = height - 18, high = height - 46;
    const first = Math.max(0, Math.floor(x)), last = Math.min(live.length, Math.ceil(x + width / scale)), step = Math.max(1, Math.floor(0.5 / scale));
    context.fillStyle = colour["k-heavy"];
    context.beginPath();
    context.moveTo((first - x) * scale, floor);
    for (let at = first; at < last; at += step) {
      let size = 0;
      for (let each = at; each < Math.min(last, at + step); each++) size = Math.max(size, live[each]);
      const y = floor - (size / this.most) * high;
      context.lineTo((at - x) * scale, y);
      context.lineTo((Math.min(last, at + step) - x) * scale, y);
    }
    context.lineTo((last - x) * scale, floor);
    context.fill();
    context.font = "12px system-ui, sans-serif";
    for (const [at, ink, text] of [[peak, colour.bad, `peak ${bytes(this.most)}`], [this.chosen, colour.accent, ""]]) {
      const left = (at + 0.5 - x) * scale;
      context.fillStyle = ink;
      context.fillRect(left, 18, 1.5, floor - 18);
      context.textAlign = left > width - 120 ? "right" : "left";
      if (text) context.fillText(text, left + (left > width - 120 ? -6 : 6), 14);
    }
  }
  tell(at) {
    const { names, live, sources } = this.picture;
    if (at < 0 || at >= names.length) return;
    this.chosen = at;
    this.panel.replaceChildren(`${names[at]}: ${bytes(live[at])} alive  `, sourceLink(sources[at]));
    this.camera.later();
  }
}

class PassesView {
  constructor(host, view) {
    const where = h("div");
    const open = (at) => where.replaceChildren(...view.pictures[at].steps.map((step) => this.step(step)));
    host.append(h("div", { class: "tools" }, chooser(view.pictures, open)), h("p", { class: "soft" }, "Each pass in the order in which it ran; open one to see what it changed and what it left alone."), where);
    open(0);
  }
  step(step) {
    const counts = [step.changed.length ? `${thousands(step.changed.length)} nodes changed` : "", step.refused ? `${thousands(step.refused)} refused` : ""];
    const body = h("div");
    const fold = h("details", { ontoggle: () => { if (fold.open && !body.firstChild) this.fill(body, step); } },
      h("summary", null, h("b", null, step.name), `  ${thousands(step.before)} → ${thousands(step.after)} nodes, ${step.ms} ms  `, h("span", { class: "soft" }, counts.filter(Boolean).join(", ")),
        step.rolledBack ? h("span", { class: "bad" }, "  rolled back") : ""), body);
    return fold;
  }
  fill(body, step) {
    body.append(...[...step.notes, step.rolledBack].filter(Boolean).map((note) => h("p", null, note)));
    if (step.groups.length) {
      const rows = h("tbody"), row = ([why, source, count]) => h("tr", null, h("td", { class: "n" }, thousands(count)), h("td", { class: "why" }, why), h("td", null, sourceLink(source)));
      body.append(h("h3", null, "Refused"), h("div", { class: "scroll" }, h("table", null, rows)), more(step.groups, row, rows, 50));
    }
    if (!step.changed.length) return;
    const list = h("div", { class: "changed" }), row = ([before, after]) => h("pre", null, before ? h("del", null, before) : "", after ? h("ins", null, after) : "");
    body.append(h("h3", null, "Before and after"), list, more(step.changed, row, list, 100));
  }
}

class SourceView {
  constructor(host) {
    this.counts = new Map();
    for (const view of page.views) if (view.kind === "graph") for (const at of view.pictures[view.pictures.length > 1 ? 1 : 0].source)
      if (at >= 0) this.counts.set(at, (this.counts.get(at) || 0) + 1);
    this.rows = new Map();
    const at = new Map(page.sources.map(([file, line], index) => [`${file}:${line}`, index]));
    for (const [file, windows] of Object.entries(page.files)) {
      host.append(h("h2", null, file));
      for (const [start, text] of windows) {
        const cells = text.flatMap((code, offset) => {
          const index = at.get(`${file}:${start + offset}`), known = index !== undefined;
          const count = this.counts.get(index), cls = known ? "at" : null;
          const go = count ? h("button", { type: "button", class: "link", onclick: () => searchGraph(`${file}:${start + offset} `) }, `${thousands(count)} nodes`) : "";
          const cell = h("pre", { class: cls }, code || " ");
          if (known) this.rows.set(index, cell);
          return [h("span", null, `${start + offset}`), h("span", null, go), cell];
        });
        host.append(h("div", { class: "code" }, cells), h("p", { class: "soft" }, "…"));
      }
    }
    if (!page.sources.length) host.append(h("p", null, "No line of the program is known for any node."));
  }
  show(index) {
    for (const cell of this.rows.values()) cell.style.outline = "";
    const cell = this.rows.get(index);
    if (!cell) return;
    cell.style.outline = "2px solid var(--accent)";
    cell.scrollIntoView({ block: "center" });
  }
}

class TreeView {
  constructor(host, view) {
    host.append(h("p", { class: "soft" }, "Everything that was decided, as data: the same as the JSON of the report."));
    host.append(...Object.entries(view.data).map(([key, value]) => this.fold(key, value)));
  }
  fold(key, value) {
    if (value === null || typeof value !== "object") return h("div", null, h("b", null, key), "  ", h("code", null, String(value)));
    const entries = Object.entries(value), body = h("div");
    if (!entries.length) return h("div", null, h("b", null, key), h("span", { class: "soft" }, "  none"));
    const fold = h("details", { ontoggle: () => {
      if (fold.open && !body.firstChild) { const list = h("div"); body.append(list, more(entries, ([name, item]) => this.fold(name, item), list, 100)); }
    } }, h("summary", null, key, h("span", { class: "soft" }, `  ${thousands(entries.length)}`)), body);
    return fold;
  }
}
