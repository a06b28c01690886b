// Small things every view uses: elements, numbers for people, links to lines, the palette of the scheme.
const page = JSON.parse(document.getElementById("data").textContent);

function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== ""));
  return element;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit++; }
  return `${unit && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

function thousands(count) { return count.toLocaleString("en"); }

function placeOf(index) {
  if (index < 0) return "";
  const [file, line] = page.sources[index];
  return `${file.split("/").slice(-2).join("/")}:${line}`;
}

function sourceLink(index) {
  if (index < 0) return h("span", { class: "soft" }, "no line is known");
  const [file, line, code] = page.sources[index];
  const go = h("button", { type: "button", class: "link", title: `${file}:${line}`, onclick: () => showSource(index) },
    placeOf(index));
  return h("span", null, go, code ? h("pre", null, code) : "");
}

function palette() {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
  return new Proxy({}, { get: (known, name) => (known[name] ??= read(`--${name}`)) });
}

function chooser(pictures, choose) {
  if (pictures.length < 2) return "";
  const options = pictures.map((picture, at) => h("option", { value: at }, picture.title));
  return h("select", { "aria-label": "Which graph", onchange: (event) => choose(+event.target.value) }, options);
}

function more(rows, row, body, step = 200) {
  // Long tables grow by need: a page of 20,000 nodes never has 20,000 rows.
  let shown = 0;
  const button = h("button", { type: "button", onclick: () => grow() });
  function grow() {
    for (const end = Math.min(rows.length, shown + step); shown < end; shown++) body.append(row(rows[shown], shown));
    button.textContent = `Show more (${thousands(rows.length - shown)} left)`;
    button.hidden = shown >= rows.length;
  }
  grow();
  return button;
}
