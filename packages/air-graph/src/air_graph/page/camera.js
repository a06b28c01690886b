// A canvas that can be moved and zoomed by mouse, fingers and keys; `axis` "x" leaves the height alone.
class Camera {
  constructor(host, label, draw, { axis = "both", click = () => {}, twice = () => {}, hover = () => {}, key = () => false } = {}) {
    Object.assign(this, { host, draw, axis, click, twice, hover, key, x: 0, y: 0, scale: 1, pointers: new Map(), asked: false });
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": label });
    host.append(this.canvas);
    this.context = this.canvas.getContext("2d");
    new ResizeObserver(() => this.resize()).observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.later());
    document.addEventListener("schemechange", () => this.later());
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    for (const [kind, act] of [["pointerdown", "down"], ["pointermove", "move"], ["pointerup", "up"], ["pointercancel", "up"]])
      this.canvas.addEventListener(kind, (event) => this[act](event));
    this.canvas.addEventListener("dblclick", (event) => this.twice(...this.world(event)));
    this.canvas.addEventListener("keydown", (event) => this.keydown(event));
  }
  resize() {
    const ratio = devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = this.host;
    if (!width || !height) return;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    if (this.width && this.axis === "both") this.x += (this.width - width) / 2 / this.scale; // what was in the middle stays there
    Object.assign(this, { width, height, ratio });
    if (this.wanted) { const wanted = this.wanted; this.wanted = null; this.fit(...wanted); }
    this.paint();
  }
  later() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paint(); });
  }
  paint() {
    if (!this.width) return;
    const { context, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.draw(context, this, palette());
  }
  world(event) {
    const box = this.canvas.getBoundingClientRect();
    return [this.x + (event.clientX - box.left) / this.scale, this.y + (event.clientY - box.top) / (this.axis === "x" ? 1 : this.scale)];
  }
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const scale = Math.min(this.most ?? 4, Math.max(this.least ?? 0.002, this.scale * factor)), change = 1 / this.scale - 1 / scale;
    this.x += px * change;
    if (this.axis !== "x") this.y += py * change;
    this.scale = scale;
    this.later();
  }
  fit(x, y, width, height, most = 1, least = 0) {
    if (!this.width) { this.wanted = [x, y, width, height, most, least]; return; }
    const whole = this.axis === "x" ? this.width / width : Math.min(this.width / width, this.height / height);
    this.scale = Math.max(least, Math.min(most, whole * 0.96));
    this.x = x + width / 2 - this.width / 2 / this.scale;
    if (this.axis !== "x") this.y = whole < least ? y - 8 / this.scale : y + height / 2 - this.height / 2 / this.scale;
    this.later();
  }
  pan(dx, dy) {
    this.x += dx / this.scale;
    if (this.axis !== "x") this.y += dy / this.scale;
    this.later();
  }
  wheel(event) {
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    if (event.shiftKey) this.pan(event.deltaY, 0);
    else this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
  }
  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event);
    this.moved = 0;
  }
  move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return this.hover(...this.world(event));
    const [dx, dy] = [event.clientX - last.clientX, event.clientY - last.clientY];
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.pointers.size === 2) {
      const other = [...this.pointers.values()].find((each) => each.pointerId !== event.pointerId);
      const span = (a) => Math.hypot(a.clientX - other.clientX, a.clientY - other.clientY) || 1;
      const box = this.canvas.getBoundingClientRect();
      this.zoom(span(event) / span(last), other.clientX - box.left, other.clientY - box.top);
    } else if (this.moved > 3) this.pan(-dx, -dy);
    this.pointers.set(event.pointerId, event);
  }
  up(event) {
    if (this.pointers.delete(event.pointerId) && this.moved <= 3 && event.type === "pointerup") this.click(...this.world(event));
  }
  keydown(event) {
    const by = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key];
    if (!event.ctrlKey && !event.metaKey && this.key(event)) { event.preventDefault(); return; }
    if (by) this.pan(...by);
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else return;
    event.preventDefault();
  }
}
