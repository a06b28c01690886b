// Places the members of each open group in rows, by the longest way from what they read; groups from inside to outside.
const BOX = 26, GAP = 16, ROWS = 30, PAD = 14, HEAD = 26, CHAR = 6.7, WIDE = 1900, COLUMNS = 50, LONG = 12;

function layout(group, label) {
  for (const child of group.children) {
    if (child.children && child.open) layout(child, label);
    else { child.w = Math.max(60, label(child).length * CHAR + 18); child.h = child.children ? BOX + 8 : BOX; }
  }
  const rows = rowsOf(group), centre = new Map();
  const before = new Map(group.children.map((child) => [child, []]));
  for (const [a, b] of group.edges) before.get(b).push(a);
  const top = group.parent ? HEAD + 6 : PAD, placed = [];
  let y = top, right = 0, left = Infinity;
  for (const row of rows) {
    const wish = (child) => {
      const known = before.get(child).filter((other) => centre.has(other));
      return known.length ? known.reduce((sum, other) => sum + centre.get(other), 0) / known.length : 0;
    };
    const wished = row.map((child) => [wish(child), child]).sort((a, b) => a[0] - b[0]);
    for (const line of lines(wished)) {
      let x = -Infinity, error = 0;
      for (const [want, child] of line) {
        child.x = Math.max(want - child.w / 2, x);
        x = child.x + child.w + GAP;
        error += want - child.w / 2 - child.x;
      }
      const shift = error / line.length;
      let tall = 0;
      for (const [, child] of line) {
        child.x += shift;
        child.y = y;
        centre.set(child, child.x + child.w / 2);
        left = Math.min(left, child.x);
        right = Math.max(right, child.x + child.w);
        tall = Math.max(tall, child.h);
      }
      placed.push([y, tall, line]);
      y += tall + ROWS;
    }
  }
  for (const child of group.children) child.x += PAD - left;
  const columns = intoColumns(placed, top, y - top, right - left + COLUMNS);
  group.w = Math.max(columns.count * (right - left + COLUMNS) - COLUMNS + 2 * PAD, group.name.length * CHAR + 60);
  group.h = columns.bottom + PAD;
}

function intoColumns(placed, top, height, width) {
  // A long chain reads as a text does: down, and on at the top of the next column.
  const wanted = placed.length > LONG ? Math.max(1, Math.round(Math.sqrt(height / width / 1.5))) : 1;
  let count = 1, start = top, bottom = top;
  for (const [y, tall, line] of placed) {
    if (y + tall - start > height / wanted && y > start && count < wanted) { count++; start = y; }
    for (const [, child] of line) { child.y += top - start; child.x += (count - 1) * width; }
    bottom = Math.max(bottom, y + tall + top - start);
  }
  return { count, bottom };
}

function rowsOf(group) {
  const rank = new Map(), before = new Map(), after = new Map();
  for (const child of group.children) { before.set(child, []); after.set(child, []); }
  for (const [a, b] of group.edges) if (a.order < b.order) { before.get(b).push(a); after.get(a).push(b); }
  for (const child of group.children) rank.set(child, Math.max(-1, ...before.get(child).map((other) => rank.get(other))) + 1);
  for (const child of group.children) { // what reads nothing here stands right above its first reader
    const readers = after.get(child);
    if (!before.get(child).length && readers.length)
      rank.set(child, Math.max(0, Math.min(...readers.map((other) => rank.get(other))) - 1));
  }
  const rows = [];
  for (const child of group.children) (rows[rank.get(child)] ??= []).push(child);
  return rows.filter(Boolean);
}

function lines(row) {
  const found = [[]];
  let width = 0;
  for (const entry of row) {
    if (width && width + entry[1].w > WIDE) { found.push([]); width = 0; }
    found[found.length - 1].push(entry);
    width += entry[1].w + GAP;
  }
  return found;
}

function absolute(group, x, y, into) {
  group.X = x; group.Y = y;
  into.push(group);
  for (const child of group.children) {
    if (child.children && child.open) absolute(child, x + child.x, y + child.y, into);
    else { child.X = x + child.x; child.Y = y + child.y; into.push(child); }
  }
  return into;
}
