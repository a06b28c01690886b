// Streams as lanes: work as boxes, waits as arrows, findings in red. Only what is in view is drawn.
const LANE = 56, TALL = 30, NAMES = 118;

class LanesView {
  constructor(host, view) {
    this.pictures = view.pictures;
    this.canvas = h("div", { class: "canvas low" });
    this.said = h("p", { class: "soft" });
    this.panel = h("div", { "aria-live": "polite" });
    this.list = h("div");
    const kinds = { work: ["heavy", "operator"], record: ["record", "record"], wait: ["wait", "wait"], keep: ["keep", "record_stream"] };
    host.append(h("div", { class: "tools" }, chooser(this.pictures, (at) => this.open(at)), h("button", { type: "button", onclick: () => this.fit() }, "Fit")),
      this.said, h("div", { class: "key" }, Object.values(kinds).map(([kind, text]) => h("span", null, h("i", { style: `background: var(--k-${kind})` }), text)),
        h("span", null, h("i", { style: "background: var(--bad)" }), "finding")), this.canvas, this.panel, this.list);
    this.colours = Object.values(kinds).map(([kind]) => `k-${kind}`);
    this.camera = new Camera(this.canvas, "Streams; left and right move, plus and minus zoom", (...given) => this.draw(...given), {
      axis: "x", click: (x, y) => this.tell(this.at(x, y)), hover: (x, y) => this.tell(this.at(x, y)), key: (event) => this.key(event) });
    this.open(0);
  }
  open(at) {
    this.picture = this.pictures[at];
    const { lanes } = this.picture;
    this.canvas.style.height = `${Math.min(620, 12 + lanes.length * LANE)}px`;
    this.end = Math.max(1, ...lanes.map((lane) => lane.end[lane.end.length - 1] ?? 0));
    this.said.textContent = this.picture.text;
    this.chosen = null;
    this.camera.least = 0.2 / this.end;
    this.camera.most = 200;
    this.camera.resize();
    this.fit();
    this.findings();
  }
  fit() {
    const { camera } = this;
    camera.scale = Math.min(60, ((camera.width || 900) - NAMES - 10) / Math.min(this.end, 40));
    camera.x = -NAMES / camera.scale;
    camera.later();
  }
  top(lane) { return 6 + lane * LANE + (LANE - TALL) / 2; }
  draw(context, camera, colour) {
    const { lanes, arrows, marks } = this.picture, { x, scale, width } = camera, at = (time) => (time - x) * scale;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    lanes.forEach((lane, number) => {
      context.fillStyle = colour.group2;
      context.fillRect(0, 6 + number * LANE + 4, width, LANE - 8);
      this.boxes(context, lane, number, colour, at, width);
    });
    this.joins(context, arrows, colour.soft, [], at, width);
    this.joins(context, marks, colour.bad, [6, 4], at, width);
    lanes.forEach((lane, number) => {
      context.fillStyle = colour.panel;
      context.fillRect(0, 6 + number * LANE + 4, NAMES - 8, LANE - 8);
      context.fillStyle = colour.ink;
      context.textAlign = "left";
      context.fillText(lane.name, 8, 6 + number * LANE + LANE / 2, NAMES - 18);
    });
  }
  boxes(context, lane, number, colour, at, width) {
    let drawn = -1;
    const top = this.top(number);
    for (let box = this.first(lane, 0, at); box < lane.start.length; box++) {
      const left = at(lane.start[box]), right = at(lane.end[box]);
      if (left > width) break;
      const bad = lane.bad[box];
      if (right <= drawn + 0.7 && !bad) continue; // one pixel says as much as ten boxes in it
      const wide = Math.max(right - left - 1, 1);
      context.fillStyle = bad ? colour.bad : colour[this.colours[lane.kind[box]]];
      context.fillRect(left, top, wide, TALL);
      drawn = right;
      if (this.chosen?.[0] === number && this.chosen[1] === box) {
        context.strokeStyle = colour.accent;
        context.lineWidth = 3;
        context.strokeRect(left, top, wide, TALL);
      }
      if (wide < 34 || lane.kind[box]) continue;
      context.fillStyle = bad && colour.ink !== "#1d2733" ? colour.paper : colour.on;
      context.textAlign = "left";
      context.fillText(this.picture.labels[lane.label[box]], left + 5, top + TALL / 2, wide - 8);
    }
  }
  first(lane, pixel, at) {
    let low = 0, high = lane.end.length;
    while (low < high) { const middle = (low + high) >> 1; if (at(lane.end[middle]) < pixel) low = middle + 1; else high = middle; }
    return low;
  }
  joins(context, pairs, colour, dash, at, width) {
    context.strokeStyle = colour;
    context.lineWidth = 1.4;
    context.setLineDash(dash);
    context.beginPath();
    let left = 1500;
    for (const [lane, box, lane2, box2] of pairs) {
      const first = this.picture.lanes[lane], second = this.picture.lanes[lane2];
      const x1 = at(dash.length ? (first.start[box] + first.end[box]) / 2 : first.end[box]);
      const x2 = at(dash.length ? (second.start[box2] + second.end[box2]) / 2 : second.start[box2]);
      if ((x1 < 0 && x2 < 0) || (x1 > width && x2 > width)) continue;
      if (!left--) break;
      const y1 = this.top(lane) + TALL / 2, y2 = this.top(lane2) + TALL / 2, bend = Math.max(16, Math.abs(x2 - x1) / 2);
      context.moveTo(x1, y1);
      if (dash.length) context.lineTo(x2, y2);
      else context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    }
    context.stroke();
    context.setLineDash([]);
  }
  at(time, y) {
    const number = Math.floor((y - 6) / LANE), lane = this.picture.lanes[number];
    if (!lane) return null;
    let low = 0, high = lane.start.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (lane.start[middle] <= time) low = middle; else high = middle - 1; }
    return lane.start.length && lane.start[low] <= time && time <= lane.end[low] ? [number, low] : null;
  }
  key(event) {
    const [lane, box] = this.chosen ?? [0, -1], { lanes } = this.picture;
    const to = { ArrowLeft: [lane, box - 1], ArrowRight: [lane, box + 1], ArrowUp: [lane - 1, 0], ArrowDown: [lane + 1, 0] }[event.key];
    if (event.key === "0") { this.fit(); return true; }
    if (!to || event.shiftKey || !lanes[to[0]] || to[1] < 0 || to[1] >= lanes[to[0]].start.length) return false;
    const { camera } = this, start = lanes[to[0]].start[to[1]];
    if ((start - camera.x) * camera.scale < NAMES || (start - camera.x) * camera.scale > camera.width - 60) camera.x = start - camera.width / 2 / camera.scale;
    this.tell(to);
    return true;
  }
  tell(place) {
    if (!place) return;
    this.chosen = place;
    const lane = this.picture.lanes[place[0]], box = place[1], { labels, findings } = this.picture;
    this.panel.replaceChildren(h("h3", null, labels[lane.label[box]]), h("p", null, `${labels[lane.operator[box]]} on the ${lane.name}  `, sourceLink(lane.source[box])),
      ...(lane.said[box] ?? []).slice(0, 12).map((at) => h("p", { class: "bad" }, findings[at].text)));
    this.camera.later();
  }
  findings() {
    const groups = new Map();
    for (const finding of this.picture.findings) {
      const key = `${finding.kind} ${placeOf(finding.first)} ${placeOf(finding.second)}`;
      (groups.get(key) ?? groups.set(key, []).get(key)).push(finding);
    }
    const rows = [...groups.values()].sort((a, b) => b.length - a.length), body = h("tbody");
    const row = ([first, ...rest]) => h("tr", null, h("td", { class: "n" }, rest.length + 1), h("td", { class: "bad" }, first.kind),
      h("td", null, sourceLink(first.first)), h("td", null, sourceLink(first.second)), h("td", { class: "why" }, h("pre", null, first.text)));
    const head = h("tr", null, ["how often", "what", "first line", "second line", "the first of them"].map((text, at) => h("th", at ? null : { class: "n" }, text)));
    this.list.replaceChildren(h("h2", null, `Findings: ${thousands(this.picture.findings.length)}`),
      ...(rows.length ? [h("div", { class: "scroll" }, h("table", null, h("thead", null, head), body)), more(rows, row, body, 50)] : []));
  }
}
