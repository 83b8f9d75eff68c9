// What was so from when to when: a row for each, over the same time.
VIEWS.tracks = (section, view) => {
  const row = 18, gap = 4, above = 24, names = 220;
  const canvas = make("canvas", {height: 10});
  const details = make("div", {class: "details"});
  const legend = make("div", {class: "legend"});
  section.append(legend, details, make("div", {class: "scroll"}, canvas));
  const kinds = [...new Set(view.tracks.flatMap(track => track.kinds))];
  const all = view.tracks.flatMap(track => track.intervals);
  if (!all.length) {
    details.textContent = "there are no times";
    return {};
  }
  // Times are since the begin of all, so that rows of several pictures lie under one another.
  const whole = [0, all.reduce((last, interval) => Math.max(last, interval[1]), 1)];
  let [from, to] = whole, pattern = null, grabbed = null;
  const tint = kind => kindColour(kinds.indexOf(kind), kinds.length);
  const x = (time, width) => names + (time - from) / (to - from) * (width - names);

  // The first interval of a track that ends behind a time: they are in order.
  function first(track, time) {
    let low = 0, high = track.intervals.length;
    while (low < high) {
      const half = (low + high) >> 1;
      if (track.intervals[half][1] <= time) low = half + 1; else high = half;
    }
    return low;
  }

  function paint() {
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 1000, height = above + view.tracks.length * (row + gap);
    canvas.style.height = `${height}px`;
    [canvas.width, canvas.height] = [width * scale, height * scale];
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--text"), line = style.getPropertyValue("--line");
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const step = 10 ** Math.floor(Math.log10((to - from) / 4));
    const every = (to - from) / step > 16 ? 5 * step : (to - from) / step > 8 ? 2 * step : step;
    for (let time = Math.ceil(from / every) * every; time <= to; time += every) {
      pen.fillStyle = line;
      pen.fillRect(x(time, width), 0, 1, height);
      pen.fillStyle = text;
      pen.fillText(amount(time - whole[0], view.unit), x(time, width) + 3, 8);
    }
    view.tracks.forEach((track, number) => {
      const y = above + number * (row + gap);
      pen.fillStyle = text;
      pen.fillText(track.name, 4 + 12 * track.level, y + row / 2, names - 10 - 12 * track.level);
      let painted = -1;
      for (let at = first(track, from); at < track.intervals.length; at++) {
        const [start, end, kind, note] = track.intervals[at];
        if (start > to) break;
        const [a, b] = [Math.max(x(start, width), names), Math.min(x(end, width), width)];
        // What is narrower than a pixel is drawn once.
        if (b <= painted) continue;
        const isFound = pattern === null || pattern.test(note) || pattern.test(track.kinds[kind]);
        pen.globalAlpha = isFound ? 1 : .15;
        pen.fillStyle = tint(track.kinds[kind]);
        pen.fillRect(a, y, Math.max(b - a, 1), row);
        if (b - a > 40) {
          pen.fillStyle = isDark() ? "#fff" : "#000";
          pen.save();
          pen.beginPath();
          pen.rect(a, y, b - a - 2, row);
          pen.clip();
          pen.fillText(note || track.kinds[kind], a + 3, y + row / 2);
          pen.restore();
        }
        painted = Math.max(b, a + 1);
      }
      pen.globalAlpha = 1;
    });
    legend.replaceChildren(...kinds.map(kind => make("span", {}, make("i", {style: `background:${tint(kind)}`}), kind)));
  }

  function zoom(factor, part = .5) {
    const at = from + (to - from) * part;
    const span = Math.min(Math.max((to - from) * factor, 10), whole[1] - whole[0]);
    from = Math.max(whole[0], Math.min(at - span * part, whole[1] - span));
    to = from + span;
    paint();
  }

  function move(part) {
    const by = Math.max(whole[0] - from, Math.min(part * (to - from), whole[1] - to));
    from += by;
    to += by;
    paint();
  }

  function tell(event) {
    const bounds = canvas.getBoundingClientRect();
    const track = view.tracks[Math.floor((event.clientY - bounds.top - above) / (row + gap))];
    const time = from + (event.clientX - bounds.left - names) / (bounds.width - names) * (to - from);
    if (!track || time < from) return;
    const interval = track.intervals[first(track, time)];
    if (!interval || interval[0] > time) {
      details.textContent = `${track.name}\nat ${amount(time - whole[0], view.unit)}`;
      return;
    }
    const [start, end, kind, note] = interval;
    details.textContent = `${track.name}: ${track.kinds[kind]}${note ? " " + note : ""}\n` +
      `${amount(end - start, view.unit)}, from ${amount(start - whole[0], view.unit)} to ${amount(end - whole[0], view.unit)}`;
  }

  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const bounds = canvas.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : .8, Math.min(Math.max((event.clientX - bounds.left - names) / (bounds.width - names), 0), 1));
  }, {passive: false});
  canvas.addEventListener("pointerdown", event => { grabbed = event.clientX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { grabbed = null; });
  canvas.addEventListener("pointermove", event => {
    if (grabbed === null) return tell(event);
    move((grabbed - event.clientX) / (canvas.clientWidth - names));
    grabbed = event.clientX;
  });
  paint();
  return {
    paint,
    reset() { [from, to] = whole; paint(); },
    search(wanted) {
      pattern = wanted;
      paint();
      let count = 0, sum = 0;
      for (const track of view.tracks) {
        for (const [start, end, kind, note] of pattern ? track.intervals : []) {
          if (!pattern.test(note) && !pattern.test(track.kinds[kind])) continue;
          count++;
          sum += end - start;
        }
      }
      return count ? `${grouped(count)} intervals, ${amount(sum, view.unit)}` : "";
    },
    key(key) {
      const does = {"+": () => zoom(.7), "-": () => zoom(1.4), ArrowLeft: () => move(-.2), ArrowRight: () => move(.2)}[key];
      if (does) does();
      return does !== undefined;
    },
  };
};
