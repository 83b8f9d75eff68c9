// The page as a whole: header, search, keys, dark and light; and what views share.
"use strict";
const VIEWS = {};
let active = null;

// Makes an element; text is text, never markup.
function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value; else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...inside);
  return element;
}

// The same of a picture.
function draw(name, attributes = {}, parent = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

const grouped = number => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

// A number with its unit; nanoseconds in a unit that suits them.
function amount(number, unit) {
  if (unit !== "ns") return `${grouped(Math.round(number))} ${unit}`;
  for (const [name, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    if (Math.abs(number) >= size) return `${(number / size).toPrecision(4)} ${name}`;
  }
  return `${Math.round(number)} ns`;
}

// A number that depends on a name only, from 0 to 1.
function hash(name) {
  let value = 5381;
  for (let at = 0; at < name.length; at++) value = (Math.imul(value, 33) ^ name.charCodeAt(at)) >>> 0;
  return value % 997 / 997;
}

const isDark = () => document.documentElement.classList.contains("dark") ||
  (!document.documentElement.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);

// Warm for programs, cold for the kernel.
function colour(name, isKernel) {
  const hue = (isKernel ? 185 : 5) + 50 * hash(name);
  return `hsl(${hue} 65% ${isDark() ? 42 + 10 * hash(name + "l") : 62 + 12 * hash(name + "l")}%)`;
}

// Colours of a few kinds, far from one another.
const kindColour = (kind, of) => `hsl(${Math.round(360 * kind / Math.max(of, 1) + 210) % 360} 60% ${isDark() ? 48 : 60}%)`;

VIEWS.numbers = (section, view) => {
  const rows = view.rows.map(([name, value]) =>
    make("tr", {}, make("td", {}, name), make("td", {class: "number"}, value)));
  section.append(make("table", {}, make("tbody", {}, ...rows)));
  return {};
};

const KEYS = [
  ["/", "search: a regular expression"], ["Escape", "end the search; the whole picture again"],
  ["Tab", "the next picture"], ["+ -", "nearer, farther"], ["arrows", "move; in a sunburst: out, in, and beside"],
  ["Enter", "in a sunburst: this part alone"], ["d", "dark, light"], ["?", "these keys"],
];

function help() {
  const rows = KEYS.map(([key, what]) => make("tr", {}, make("td", {}, key), make("td", {}, what)));
  const dialog = make("dialog", {}, make("table", {}, make("tbody", {}, ...rows)),
    make("p", {class: "hint"}, "The wheel zooms, dragging moves, a click chooses. Escape closes this."));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function show() {
  const page = JSON.parse(document.getElementById("data").textContent);
  const words = make("input", {type: "search", placeholder: "search (/)", "aria-label": "search"});
  const found = make("span", {class: "hint"});
  document.body.append(make("header", {}, make("h1", {}, page.title), make("span", {class: "about"}, page.about),
    words, found, make("button", {onclick: help, title: "keys"}, "?")));
  const shown = page.views.map(view => {
    const section = make("section", {class: view.type, tabIndex: 0}, make("h2", {}, view.title));
    document.body.append(section);
    const controls = VIEWS[view.type](section, view);
    section.addEventListener("focusin", () => { active = controls; });
    section.addEventListener("pointerenter", () => { active = controls; });
    return controls;
  });
  active = shown.find(controls => controls.key) || null;
  const search = () => {
    let pattern = null;
    try { pattern = words.value ? new RegExp(words.value, "i") : null; }
    catch (error) { found.textContent = String(error.message); return; }
    const texts = shown.map(controls => controls.search ? controls.search(pattern) : "");
    found.textContent = pattern ? texts.filter(text => text).join("; ") || "nothing found" : "";
  };
  words.addEventListener("input", search);
  const repaint = () => shown.forEach(controls => controls.paint && controls.paint());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  window.addEventListener("resize", repaint);
  window.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
    if (event.key === "Escape") {
      words.value = "";
      search();
      words.blur();
      if (active && active.reset) active.reset();
    } else if (document.activeElement === words) {
      return;
    } else if (event.key === "Enter" && document.activeElement instanceof HTMLButtonElement) {
      return;
    } else if (event.key === "/") {
      words.focus();
    } else if (event.key === "d") {
      const dark = isDark();
      document.documentElement.classList.toggle("light", dark);
      document.documentElement.classList.toggle("dark", !dark);
      repaint();
    } else if (event.key === "?") {
      help();
    } else if (!active || !active.key || !active.key(event.key)) {
      return;
    }
    event.preventDefault();
  });
}
