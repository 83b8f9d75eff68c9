// Histograms, by the logarithm of the value.
VIEWS.histogram = (section, view) => {
  const details = make("div", {class: "details"});
  const height = 260, left = 60, bottom = 34;
  const picture = draw("svg", {height});
  const legend = make("div", {class: "legend"});
  section.append(legend, picture, details);
  const place = value => Math.log2(value + 1);
  const all = view.series.flatMap(one => one.buckets);
  const whole = [Math.min(...all.map(one => place(one[0]))), Math.max(...all.map(one => place(one[1] + 1)))];
  let [from, to] = whole;
  const controls = {
    paint() {
      picture.replaceChildren();
      const width = picture.clientWidth || 1000;
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      legend.replaceChildren(...view.series.map((one, number) => make("span", {},
        make("i", {style: `background:${kindColour(number, view.series.length)}`}), one.name)));
      const most = Math.max(1, ...all.filter(one => place(one[1] + 1) > from && place(one[0]) < to).map(one => one[2]));
      const x = value => left + (place(value) - from) / (to - from) * (width - left - 10);
      const y = count => height - bottom - count / most * (height - bottom - 10);
      for (const part of [0, .25, .5, .75, 1]) {
        draw("line", {x1: left, x2: width - 10, y1: y(part * most), y2: y(part * most), class: "axis"}, picture);
        draw("text", {x: left - 6, y: y(part * most) + 4, "text-anchor": "end"}, picture).textContent =
          grouped(Math.round(part * most));
      }
      const step = Math.max(1, Math.round((to - from) / 10));
      for (let power = Math.max(0, Math.ceil(from) - 1); place(2 ** power) <= to; power += step) {
        if (place(2 ** power) < from) continue;
        draw("text", {x: x(2 ** power), y: height - 16, "text-anchor": "middle"}, picture).textContent =
          view.unit === "ns" ? amount(2 ** power, "ns") : grouped(2 ** power);
      }
      draw("text", {x: width - 10, y: height - 2, "text-anchor": "end"}, picture).textContent =
        view.unit === "ns" ? "time" : view.unit;
      const count = view.series.length;
      view.series.forEach((one, number) => {
        const sum = one.buckets.reduce((sum, bucket) => sum + bucket[2], 0);
        for (const [first, last, times] of one.buckets) {
          const [begin, end] = [Math.max(x(first), left), Math.min(x(last + 1), width - 10)];
          if (end <= begin) continue;
          const wide = Math.max((end - begin) / count - .5, .8);
          const bar = draw("rect", {x: begin + number * (end - begin) / count, y: y(times), width: wide,
            height: Math.max(height - bottom - y(times), 1), fill: kindColour(number, count)}, picture);
          bar.addEventListener("pointerenter", () => {
            const range = first === last ? amount(first, view.unit) : `${amount(first, view.unit)} to ${amount(last, view.unit)}`;
            details.textContent = `${one.name}: ${range}: ${grouped(times)} (${(100 * times / sum).toFixed(2)} % of ${grouped(sum)})`;
          });
        }
      });
    },
    zoom(factor, part = .5) {
      const middle = from + (to - from) * part;
      const span = Math.min(Math.max((to - from) * factor, .25), whole[1] - whole[0]);
      from = Math.max(whole[0], Math.min(middle - span * part, whole[1] - span));
      to = from + span;
      controls.paint();
    },
    move(part) {
      const by = Math.max(whole[0] - from, Math.min(part * (to - from), whole[1] - to));
      from += by;
      to += by;
      controls.paint();
    },
    reset() { [from, to] = whole; controls.paint(); },
    key(key) {
      const does = {"+": () => controls.zoom(.7), "-": () => controls.zoom(1.4), ArrowLeft: () => controls.move(-.2),
        ArrowRight: () => controls.move(.2)}[key];
      if (does) does();
      return does !== undefined;
    },
  };
  picture.addEventListener("wheel", event => {
    event.preventDefault();
    const bounds = picture.getBoundingClientRect();
    controls.zoom(event.deltaY > 0 ? 1.2 : .8, Math.min(Math.max((event.clientX - bounds.left - left) / (bounds.width - left), 0), 1));
  }, {passive: false});
  if (all.length) controls.paint();
  return all.length ? controls : {};
};
