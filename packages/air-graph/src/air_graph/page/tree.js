// The tree of modules over the nodes of a graph: what is folded, and what a group holds.
const MANY = 250; // children of one group; more are put into runs, so that no level is ever too much to see

function treeOf(picture) {
  const count = picture.names.length, users = Array.from({ length: count }, () => []);
  picture.inputs.forEach((inputs, node) => inputs.forEach((input) => users[input].push(node)));
  const isInput = (node) => picture.kinds[picture.kind[node]] === "input";
  const paths = picture.module.map((at) => picture.modules[at]), order = Array.from({ length: count }, (_, node) => node);
  for (let node = count - 1; node >= 0; node--) {
    if (!isInput(node) || !users[node].length) continue;
    // an input stands beside its first reader, in the innermost module that holds all of them
    order[node] = Math.min(...users[node].map((user) => order[user])) - 0.5;
    if (!paths[node]) paths[node] = users[node].map((user) => paths[user]).reduce(commonPath);
  }
  const leaves = picture.names.map((name, node) => ({ name, node, order: order[node], count: 1, bytes: picture.bytes[node] }));
  const root = groupOf("", null, "");
  const groups = new Map([["", root]]);
  leaves.forEach((leaf, node) => adopt(groupAt(groups, paths[node]), leaf));
  finish(root, 0);
  lift(root, leaves, picture.inputs);
  return { root, leaves, users, isInput };
}

function groupOf(name, parent, path) {
  return { name, parent, path, children: [], node: -1, open: false, count: 0, bytes: 0, order: Infinity, edges: [] };
}

function adopt(group, child) { child.parent = group; group.children.push(child); }

function groupAt(groups, path) {
  let group = groups.get(path);
  if (!group) {
    const cut = path.lastIndexOf("."), parent = groupAt(groups, cut < 0 ? "" : path.slice(0, cut));
    const name = path.slice(cut + 1);
    group = groupOf(/^\d+$/.test(name) && parent.name ? `${parent.name}.${name}` : name, parent, path);
    adopt(parent, group);
    groups.set(path, group);
  }
  return group;
}

function commonPath(a, b) {
  const first = a.split("."), second = b.split(".");
  let same = 0;
  while (same < first.length && same < second.length && first[same] === second[same]) same++;
  return first.slice(0, same).join(".");
}

function finish(group, depth) {
  // A group with one member is that member under a longer name; a level with too many members gets runs.
  group.depth = depth;
  group.children = group.children.map((child) => {
    while (child.children && child.children.length === 1) {
      const [only] = child.children;
      if (only.children && !only.name.startsWith(`${child.name}.`)) only.name = `${child.name}.${only.name}`;
      only.parent = group;
      child = only;
    }
    return child;
  });
  for (const child of group.children) {
    if (child.children) finish(child, depth + 1);
    else child.depth = depth + 1;
    group.order = Math.min(group.order, child.order);
    group.count += child.count;
    group.bytes += child.bytes;
  }
  group.children.sort((a, b) => a.order - b.order);
  if (group.children.length > MANY) intoRuns(group);
}

function intoRuns(group) {
  const all = group.children, length = Math.ceil(Math.sqrt(all.length));
  group.children = [];
  for (let start = 0; start < all.length; start += length) {
    const members = all.slice(start, start + length);
    const run = groupOf(`${members[0].name} … ${members[members.length - 1].name}`, group, group.path);
    run.order = members[0].order;
    for (const member of members) { adopt(run, member); run.count += member.count; run.bytes += member.bytes; }
    group.children.push(run);
  }
  const deepen = (item, depth) => { item.depth = depth; item.children?.forEach((child) => deepen(child, depth + 1)); };
  deepen(group, group.depth);
}

function lift(root, leaves, inputs) {
  // Every edge belongs to the innermost group that holds both ends, and joins two of its children.
  const known = new Map();
  inputs.forEach((sources, node) => {
    for (const source of sources) {
      let a = leaves[source], b = leaves[node];
      while (a.depth > b.depth) a = a.parent;
      while (b.depth > a.depth) b = b.parent;
      while (a.parent !== b.parent) { a = a.parent; b = b.parent; }
      if (a === b) continue;
      let seen = known.get(a);
      if (!seen) known.set(a, (seen = new Set()));
      if (!seen.has(b)) { seen.add(b); a.parent.edges.push([a, b]); }
    }
  });
}

function unfoldTo(root, budget) {
  // Opens level by level, as long as no more boxes than that are to be seen.
  let shown = root.children.length, level = [root];
  root.open = true;
  while (level.length) {
    const next = level.flatMap((group) => group.children.filter((child) => child.children));
    const added = next.reduce((sum, group) => sum + group.children.length, 0);
    if (!added || shown + added > budget) break;
    for (const group of next) group.open = true;
    shown += added;
    level = next;
  }
}

function everyGroup(group, act) {
  act(group);
  for (const child of group.children) if (child.children) everyGroup(child, act);
}

function standIn(item) {
  // What is seen of an item: itself, or the outermost folded group around it.
  let seen = item;
  for (let at = item.parent; at; at = at.parent) if (!at.open) seen = at;
  return seen;
}
