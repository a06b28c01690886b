// The graph: boxes for operators, frames for modules, what is folded as one box.
const EDGES = 7000; // more are not drawn at once: at that distance they would be one grey

const FAN = 12; // edges of what has more, in or out, are drawn when it is selected

const KINDS = { input: "input, weight, constant", heavy: "products, convolutions, attention", pointwise: "elementwise",
  reduce: "reduction", view: "view", write: "writes in place", other: "other", output: "output" };

class GraphView {
  constructor(host, view) {
    this.pictures = view.pictures;
    this.trees = new Map();
    this.search = h("input", { type: "search", placeholder: "Search name, operator, module, line  ( / )", "aria-label": "Search nodes",
      oninput: () => this.find(this.search.value), onkeydown: (event) => { if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1); } });
    this.found = h("span", { class: "soft", "aria-live": "polite" });
    this.panel = h("aside", { class: "panel", "aria-live": "polite" });
    const button = (text, act) => h("button", { type: "button", onclick: act }, text);
    const canvas = h("div", { class: "canvas" });
    host.append(
      h("div", { class: "tools" }, chooser(this.pictures, (at) => this.open(at)), this.search, this.found,
        button("Fit", () => this.fit()), button("Unfold a level", () => this.level(1)), button("Fold a level", () => this.level(-1)),
        button("Unfold all", () => this.all(true)), button("Fold all", () => this.all(false))),
      h("div", { class: "key" }, Object.entries(KINDS).map(([kind, text]) =>
        h("span", null, h("i", { style: `background: var(--k-${kind})` }), text))),
      h("div", { class: "stage" }, canvas, this.panel));
    this.camera = new Camera(canvas, "Graph; arrows walk along edges, Enter folds, plus and minus zoom, slash searches", (...given) => this.draw(...given), {
      click: (x, y) => this.select(this.at(x, y)),
      twice: (x, y) => { const item = this.at(x, y); if (item?.children) this.toggle(item); },
      key: (event) => this.key(event),
    });
    this.open(0);
  }
  open(at) {
    this.picture = this.pictures[at];
    let tree = this.trees.get(at);
    if (!tree) {
      this.trees.set(at, (tree = treeOf(this.picture)));
      unfoldTo(tree.root, 260);
    }
    Object.assign(this, { tree, selected: null, hits: [], hit: -1, badges: new Map() });
    this.arrange();
    this.find(this.search.value);
    this.fit(0.5);
    this.tell();
  }
  label(item) {
    const { picture } = this;
    if (item.children) return `${item.open ? "" : "▸ "}${item.name}  ·  ${thousands(item.count)}`;
    const operator = picture.operators[picture.operator[item.node]].replace(/^aten::/, "");
    return operator === item.name ? item.name : `${operator}  ${item.name}`;
  }
  arrange() {
    const { root, leaves } = this.tree;
    layout(root, (item) => this.label(item));
    this.items = absolute(root, 0, 0, []).slice(1);
    const known = new Set(), stand = leaves.map(standIn);
    this.items.forEach((item, at) => { item.at = at; });
    this.edges = [];
    this.picture.inputs.forEach((sources, node) => {
      for (const source of sources) {
        const a = stand[source], b = stand[node], key = a.at * this.items.length + b.at;
        if (a !== b && !known.has(key)) { known.add(key); this.edges.push([a, b]); }
      }
    });
    const count = (end) => this.edges.reduce((fan, edge) => fan.set(edge[end], (fan.get(edge[end]) || 0) + 1), new Map());
    const many = (end) => new Set([...count(end)].filter(([, edges]) => edges > FAN).map(([item]) => item));
    const [out, into] = [many(0), many(1)];
    this.near = this.edges.filter(([a, b]) => !out.has(a) && !into.has(b));
    this.mark();
    this.camera.later();
  }
  fit(least = 0.02) { const { root } = this.tree; this.camera.fit(0, 0, root.w, root.h, 1.2, least); }
  draw(context, camera, colour) {
    const { x, y, scale, width, height } = camera, right = x + width / scale, bottom = y + height / scale;
    const seen = (item) => item.X < right && item.Y < bottom && item.X + item.w > x && item.Y + item.h > y;
    context.scale(scale, scale);
    context.translate(-x, -y);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const item of this.items) if (item.children && item.open && seen(item)) this.frame(context, item, colour, scale, x, right);
    this.lines(context, colour, x, y, right, bottom, scale);
    for (const item of this.items) if (!(item.children && item.open) && seen(item)) this.box(context, item, colour, scale);
  }
  frame(context, item, colour, scale, left, right) {
    context.fillStyle = item.depth % 2 ? colour.group : colour.group2;
    context.strokeStyle = item === this.selected ? colour.accent : colour.line;
    context.lineWidth = (item === this.selected ? 2.5 : 1) / scale;
    context.beginPath();
    context.roundRect(item.X, item.Y, item.w, item.h, 7);
    context.fill();
    context.stroke();
    if (scale < 0.35) return;
    context.fillStyle = colour.soft;
    context.textAlign = "left";
    context.fillText(this.label(item), Math.max(item.X, Math.min(left, item.X + item.w - 160)) + 10, item.Y + 14);
  }
  lines(context, colour, x, y, right, bottom, scale) {
    const out = (a, b) => Math.max(a.X + a.w, b.X + b.w) < x || Math.min(a.X, b.X) > right || Math.max(a.Y, b.Y) < y || Math.min(a.Y, b.Y) > bottom;
    const near = this.near.filter(([a, b]) => !out(a, b)), straight = near.length > 1500 || scale < 0.15;
    context.strokeStyle = colour.edge;
    context.lineWidth = Math.max(0.8, 0.6 / scale);
    context.globalAlpha = near.length > 1500 ? 0.35 : 0.8;
    context.beginPath();
    const step = Math.ceil(near.length / EDGES);
    for (let at = 0; at < near.length; at += step) this.curve(context, ...near[at], straight);
    context.stroke();
    context.globalAlpha = 1;
    if (!this.selected) return;
    context.strokeStyle = colour.accent;
    context.lineWidth = Math.max(2, 1.5 / scale);
    context.beginPath();
    for (const [a, b] of this.edges) if (a === this.selected || b === this.selected) this.curve(context, a, b, false);
    context.stroke();
  }
  curve(context, a, b, straight) {
    const x1 = a.X + a.w / 2, y1 = a.Y + a.h, x2 = b.X + b.w / 2, y2 = b.Y, middle = (y1 + y2) / 2;
    context.moveTo(x1, y1);
    if (straight) context.lineTo(x2, y2);
    else if (y2 < y1) context.bezierCurveTo(x1, y1 + 60, x2, y2 - 60, x2, y2);
    else context.bezierCurveTo(x1, middle, x2, middle, x2, y2);
  }
  box(context, item, colour, scale) {
    const { picture } = this, group = Boolean(item.children);
    const fill = group ? colour.paper : colour[`k-${picture.kinds[picture.kind[item.node]]}`] || colour["k-other"];
    context.fillStyle = fill;
    if (item.h * scale < 4) context.fillRect(item.X, item.Y, item.w, item.h);
    else {
      context.beginPath();
      context.roundRect(item.X, item.Y, item.w, item.h, 5);
      context.fill();
      const badge = this.badges.get(item), noted = !group && picture.notes[item.node];
      if (group || badge || noted || item === this.selected) {
        context.strokeStyle = item === this.selected ? colour.accent : badge ? colour.hit : noted ? colour.bad : colour.soft;
        context.lineWidth = Math.max(item === this.selected || badge ? 3 : 1.2, (badge ? 2 : 1) / scale);
        context.stroke();
      }
    }
    if (item.h * scale < 8) return;
    context.fillStyle = group ? colour.ink : colour.on;
    context.textAlign = "center";
    context.fillText(this.label(item), item.X + item.w / 2, item.Y + item.h / 2 + 0.5, item.w - 8);
  }
  at(x, y) {
    for (let index = this.items.length - 1; index >= 0; index--) {
      const item = this.items[index];
      if (x >= item.X && y >= item.Y && x <= item.X + item.w && y <= item.Y + item.h) return item;
    }
    return null;
  }
  select(item, centre = false) {
    this.selected = item;
    if (item && centre) {
      const { camera } = this;
      if (camera.scale < 0.55) camera.scale = 0.8;
      camera.x = item.X + item.w / 2 - (camera.width ?? 0) / 2 / camera.scale;
      camera.y = item.Y + Math.min(item.h, 60) / 2 - (camera.height ?? 0) / 2 / camera.scale;
    }
    this.camera.later();
    this.tell();
  }
  toggle(group) {
    const { camera } = this, before = [group.X, group.Y];
    group.open = !group.open;
    this.arrange();
    camera.x += group.X - before[0];
    camera.y += group.Y - before[1];
    this.select(group);
  }
  all(open) {
    everyGroup(this.tree.root, (group) => { group.open = open; });
    this.tree.root.open = true;
    this.arrange();
    this.fit();
  }
  level(by) {
    let depth = 0; // the deepest level of which everything is open
    const shut = [];
    everyGroup(this.tree.root, (group) => { if (group.open) depth = Math.max(depth, group.depth); else shut.push(group.depth); });
    const wanted = by > 0 ? Math.min(...shut, depth + 1) : Math.max(0, depth - 1);
    everyGroup(this.tree.root, (group) => { group.open = group.depth <= wanted; });
    this.arrange();
    this.fit();
  }
  reveal(node) {
    const leaf = this.tree.leaves[node];
    let folded = false;
    for (let group = leaf.parent; group; group = group.parent) { folded ||= !group.open; group.open = true; }
    if (folded) this.arrange();
    this.select(leaf, true);
  }
  find(text) {
    const wanted = text.trim().toLowerCase(), { picture } = this;
    const code = (at) => (at < 0 ? "" : `${page.sources[at][0]}:${page.sources[at][1]} ${page.sources[at][2]}`);
    const lines = wanted ? page.sources.map((_, at) => code(at).toLowerCase().includes(wanted)) : [];
    const table = (rows) => rows.map((row) => row.toLowerCase().includes(wanted));
    const [operators, modules] = wanted ? [table(picture.operators), table(picture.modules)] : [[], []];
    this.hits = !wanted ? [] : picture.names.flatMap((name, node) =>
      name.toLowerCase().includes(wanted) || operators[picture.operator[node]] || modules[picture.module[node]] ||
      lines[picture.source[node]] ? [node] : []);
    this.hit = -1;
    this.found.textContent = wanted ? `${thousands(this.hits.length)} found` : `${thousands(picture.names.length)} nodes`;
    this.mark();
    this.tell();
    this.camera.later();
  }
  mark() {
    this.badges = new Map();
    for (const node of this.hits) {
      const item = standIn(this.tree.leaves[node]);
      this.badges.set(item, (this.badges.get(item) || 0) + 1);
    }
  }
  next(by) {
    if (!this.hits.length) return;
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    this.reveal(this.hits[this.hit]);
    this.found.textContent = `${thousands(this.hit + 1)} of ${thousands(this.hits.length)}`;
  }
  key(event) {
    const { selected, tree } = this, walk = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -2, ArrowRight: 2 }[event.key];
    if (event.key === "/") this.search.focus();
    else if (event.key === "n") this.next(1);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.select(null);
    else if (event.key === "Enter" || event.key === " ") {
      const group = selected?.children ? selected : selected?.parent;
      if (!group || group === tree.root) return false;
      this.toggle(group);
    } else if (walk && !event.shiftKey) {
      if (!selected) { this.select(this.items[0] ?? null, true); return true; }
      // an open module leads inside and out, everything else along its edges
      const inside = walk > 0 ? selected.children?.[0] : selected.parent.parent ? selected.parent : null;
      const ends = walk < 0 ? [1, 0] : [0, 1];
      const along = selected.open ? inside : this.edges.find((edge) => edge[ends[0]] === selected)?.[ends[1]];
      const row = selected.parent.children, beside = Math.abs(walk) === 2 ? row[row.indexOf(selected) + walk / 2] : along;
      if (beside) this.select(beside, true);
    } else return false;
    return true;
  }
  tell() {
    const { selected, picture, hits } = this;
    if (selected) this.panel.replaceChildren(...(selected.children ? this.ofGroup(selected) : this.ofNode(selected.node)));
    else if (hits.length) {
      const list = h("ul");
      this.panel.replaceChildren(h("h3", null, `${thousands(hits.length)} found`), list, more(hits, (node) => h("li", null, this.link(node)), list, 100));
    } else this.panel.replaceChildren(h("h3", null, picture.title), h("p", null, picture.text || ""),
      h("p", { class: "soft" }, `Select a box to see its line, shapes, readers and what was refused. A double click, or Enter, folds and unfolds a module; what has a red frame was refused by a pass or runs eagerly. What more than ${FAN} others read, or what reads so many, shows its edges when it is selected.`));
  }
  link(node) {
    const { picture } = this;
    return h("span", null, h("button", { type: "button", class: "link", onclick: () => this.reveal(node) }, picture.names[node]),
      ` ${picture.operators[picture.operator[node]]}`);
  }
  ofGroup(group) {
    return [h("h3", null, group.path || group.name), h("p", null, `${thousands(group.count)} nodes, ${bytes(group.bytes)} of results`),
      h("button", { type: "button", onclick: () => this.toggle(group) }, group.open ? "Fold" : "Unfold")];
  }
  ofNode(node) {
    const { picture, tree } = this, row = (name, value) => (value ? [h("dt", null, name), h("dd", null, value)] : []);
    const list = (nodes) => (nodes.length ? h("span", null, nodes.slice(0, 40).flatMap((other, at) => [at ? ", " : "", this.link(other)]),
      nodes.length > 40 ? ` and ${nodes.length - 40} more` : "") : "");
    const notes = (picture.notes[node] || []).map((at) => h("li", null, page.notes[at]));
    return [h("h3", null, picture.names[node]), h("dl", null,
      row("operator", picture.operators[picture.operator[node]]), row("result", picture.details[picture.detail[node]]),
      row("memory", picture.bytes[node] ? bytes(picture.bytes[node]) : ""), row("module", picture.modules[picture.module[node]]),
      row("line", sourceLink(picture.source[node])), row("reads", list([...new Set(picture.inputs[node])])), row("read by", list(tree.users[node]))),
      notes.length ? h("h3", { class: "bad" }, "Refused") : "", h("ul", null, notes)].filter(Boolean);
  }
}
