// Zooming and searching in a flame graph. Frames have the places from where to where they are, as shares of the whole.
"use strict";
const svg = document.documentElement;
const frames = [...document.querySelectorAll("#frames g")].map(g => ({
  g, rect: g.querySelector("rect"), text: g.querySelector("text"), name: g.dataset.name,
  from: +g.dataset.from, to: +g.dataset.to, row: +g.dataset.row,
}));
const width = svg.viewBox.baseVal.width, letter = 6.6;
const details = document.getElementById("details"), found = document.getElementById("found");

function fitting(name, pixels) {
  const letters = Math.floor((pixels - 6) / letter);
  if (name.length <= letters) return name;
  return letters < 4 ? "" : name.slice(0, letters - 2) + "..";
}

// Shows what lies between two places; callers of the chosen function fill the width.
function zoom(chosen) {
  const span = chosen.to - chosen.from, little = 1e-7;
  for (const f of frames) {
    const around = f.row < chosen.row && f.from <= chosen.from + little && f.to >= chosen.to - little;
    const inside = f.row >= chosen.row && f.from >= chosen.from - little && f.to <= chosen.to + little;
    f.g.style.display = around || inside ? "" : "none";
    f.g.classList.toggle("around", around);
    const x = around ? 0 : (f.from - chosen.from) / span * width;
    const w = around ? width : (f.to - f.from) / span * width;
    f.rect.setAttribute("x", x);
    f.rect.setAttribute("width", w);
    f.text.setAttribute("x", x + 3);
    f.text.textContent = fitting(f.name, w);
  }
}

// Marks the functions that match, and adds up their shares; what lies inside of a match is not counted again.
function search(words) {
  let pattern = null;
  try { pattern = words ? new RegExp(words) : null; } catch (error) { found.textContent = String(error); return; }
  const matches = frames.filter(f => {
    const is = pattern !== null && pattern.test(f.name);
    f.g.classList.toggle("found", is);
    return is;
  });
  matches.sort((a, b) => a.from - b.from || b.to - a.to);
  let share = 0, end = -1;
  for (const f of matches) {
    if (f.from >= end - 1e-7) { share += f.to - f.from; end = f.to; }
  }
  found.textContent = pattern ? `${words}: ${(100 * share).toFixed(2)} %` : "";
}

for (const f of frames) {
  f.g.addEventListener("click", () => zoom(f));
  f.g.addEventListener("mouseover", () => { details.textContent = f.g.querySelector("title").textContent; });
}
window.addEventListener("keydown", event => {
  if ((event.ctrlKey || event.metaKey) && event.key === "f") {
    event.preventDefault();
    search(prompt("Search for (a regular expression):", "") || "");
  } else if (event.key === "Escape") {
    search("");
    zoom(frames[0]);
  }
});
