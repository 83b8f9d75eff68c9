// A tree of shares as rings: what is called lies outside of its caller.
VIEWS.sunburst = (section, view) => {
  const size = 900, middle = size / 2, ringsMax = 14, hole = 60, narrowest = .0006;
  const details = make("div", {class: "details"});
  const picture = draw("svg", {viewBox: `0 0 ${size} ${size}`, role: "img"});
  const changes = {alone: "only here", more: "more than in the other", less: "less than in the other"};
  // Not by recursion: how deep calls are is the program's affair.
  const nodes = [];
  const waiting = [[view.root, null]];
  while (waiting.length) {
    const [part, parent] = waiting.pop();
    const node = {part, parent, children: [], total: part.own, depth: parent ? parent.depth + 1 : 0};
    if (parent) parent.children.push(node);
    nodes.push(node);
    for (const child of part.parts || []) waiting.push([child, node]);
  }
  for (let at = nodes.length - 1; at > 0; at--) nodes[at].parent.total += nodes[at].total;
  for (const node of nodes) node.children.sort((a, b) => b.total - a.total);
  // Where parts differ from another tree, these have the colours.
  const isOfTwo = nodes.some(node => node.part.change);
  if (isOfTwo) {
    const keys = Object.entries(changes).filter(([change]) => nodes.some(node => node.part.change === change));
    section.append(make("div", {class: "legend"},
      ...keys.map(([change, words]) => make("span", {}, make("i", {class: change}), words))));
  }
  section.append(details, picture);
  const root = nodes[0];
  let top = root, chosen = root, pattern = null;
  const path = node => node ? [...path(node.parent), node.part.name] : [];
  const share = (node, of) => of.total ? 100 * node.total / of.total : 0;

  function tell(node) {
    const of = node.parent ? `, ${share(node, node.parent).toFixed(1)} % of its caller's` : "";
    details.textContent = `${path(node).join(" > ")}\n${amount(node.total, view.unit)} (${share(node, root).toFixed(2)} % of all${of}), ` +
      `its own ${amount(node.part.own, view.unit)}${node.part.note ? "; " + node.part.note : ""}` +
      (node.part.change ? `; ${changes[node.part.change]}` : "");
  }

  function arc(inner, outer, from, to) {
    const end = to - from > .99999 ? from + .99999 : to;
    const point = (radius, part) => {
      const angle = 2 * Math.PI * part - Math.PI / 2;
      return `${(middle + radius * Math.cos(angle)).toFixed(2)} ${(middle + radius * Math.sin(angle)).toFixed(2)}`;
    };
    const large = end - from > .5 ? 1 : 0;
    return `M${point(outer, from)}A${outer} ${outer} 0 ${large} 1 ${point(outer, end)}` +
      `L${point(inner, end)}A${inner} ${inner} 0 ${large} 0 ${point(inner, from)}Z`;
  }

  // Rings that there is something to see in.
  function depth() {
    let deepest = 1;
    const open = [top];
    while (open.length) {
      const node = open.pop();
      deepest = Math.max(deepest, node.depth - top.depth);
      if (deepest >= ringsMax) return ringsMax;
      open.push(...node.children.filter(child => child.total >= narrowest * top.total));
    }
    return deepest;
  }

  // A name in an arc: along the ring where it is long enough, and bent little enough; else outwards.
  function label(name, radius, from, to, width) {
    const letter = 5.6, wide = name.length * letter, turn = 360 * (from + to) / 2;
    const isAlong = wide < .95 * 2 * Math.PI * radius * (to - from) && wide < Math.sqrt(3 * radius * width);
    const letters = isAlong ? name.length : Math.floor(width / letter);
    if (letters < 4) return;
    const text = name.length > letters ? name.slice(0, letters - 1) + "…" : name;
    const isUpsideDown = isAlong ? turn > 90 && turn < 270 : turn > 180;
    const angle = (isAlong ? 0 : -90) + (isUpsideDown ? 180 : 0);
    draw("text", {transform: `translate(${middle} ${middle}) rotate(${turn}) translate(0 ${-radius}) rotate(${angle})`,
      "text-anchor": "middle", "dominant-baseline": "middle", style: "font-size:9px"}, picture).textContent = text;
  }

  function paint() {
    picture.replaceChildren();
    const rings = depth();
    const width = (middle - hole) / rings;
    const open = [[top, 0, 1]];
    const labels = [];
    while (open.length) {
      const [node, from, to] = open.pop();
      const level = node.depth - top.depth;
      if (level > rings || to - from < narrowest) continue;
      let at = from;
      for (const child of node.children) {
        const end = at + (to - from) * (node.total ? child.total / node.total : 0);
        open.push([child, at, end]);
        at = end;
      }
      if (level === 0) continue;
      const [inner, outer] = [hole + (level - 1) * width, hole + level * width];
      const fill = isOfTwo ? "var(--pale)" : colour(node.part.name, node.part.kernel);
      const shape = draw("path", {d: arc(inner, outer, from, to), fill}, picture);
      if (node.part.change) shape.classList.add(node.part.change);
      const isFound = pattern !== null && pattern.test(node.part.name);
      shape.classList.toggle("found", isFound);
      shape.classList.toggle("dim", pattern !== null && !isFound);
      shape.classList.toggle("chosen", node === chosen);
      shape.addEventListener("pointerenter", () => tell(node));
      shape.addEventListener("click", () => zoom(node));
      // Names where an arc has room for them.
      if (2 * Math.PI * (inner + outer) / 2 * (to - from) > 12 || to - from > .2) labels.push([node, inner, from, to, width]);
    }
    for (const [node, inner, from, to, width] of labels) label(node.part.name, inner + width / 2, from, to, width);
    const centre = draw("circle", {cx: middle, cy: middle, r: hole - 2}, picture);
    centre.addEventListener("click", () => zoom(top.parent || root));
    centre.addEventListener("pointerenter", () => tell(top));
    const lines = [top.part.name.slice(0, 18), amount(top.total, view.unit), `${share(top, root).toFixed(1)} %`];
    lines.forEach((line, number) => {
      draw("text", {x: middle, y: middle + 15 * (number - 1) + 4, "text-anchor": "middle"}, picture).textContent = line;
    });
  }

  function zoom(node) {
    top = node.children.length || !node.parent ? node : node.parent;
    chosen = node;
    tell(node);
    paint();
  }

  function step(node) {
    if (!node) return;
    chosen = node;
    let inside = node;
    while (inside && inside !== top) inside = inside.parent;
    if (!inside) top = node;
    tell(node);
    paint();
  }

  const beside = by => {
    const all = chosen.parent ? chosen.parent.children : [chosen];
    return all[(all.indexOf(chosen) + by + all.length) % all.length];
  };
  tell(root);
  paint();
  return {
    paint,
    reset() { zoom(root); },
    search(wanted) {
      pattern = wanted;
      let sum = 0, count = 0;
      for (const node of nodes) {
        node.inFound = node.parent && node.parent.inFound;
        if (pattern && pattern.test(node.part.name)) {
          count++;
          // What lies inside of a match is not counted again.
          if (!node.inFound) sum += node.total;
          node.inFound = true;
        }
      }
      paint();
      return count ? `${count} paths, ${root.total ? (100 * sum / root.total).toFixed(2) : 0} %` : "";
    },
    key(key) {
      const does = {ArrowUp: () => step(chosen.parent), ArrowDown: () => step(chosen.children[0]),
        ArrowLeft: () => step(beside(-1)), ArrowRight: () => step(beside(1)), Enter: () => zoom(chosen),
        "+": () => zoom(chosen), "-": () => zoom(top.parent || root), Backspace: () => zoom(top.parent || root)}[key];
      if (does) does();
      return does !== undefined;
    },
  };
};
