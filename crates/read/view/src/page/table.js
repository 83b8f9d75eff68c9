// Tables, sorted by a click on a column's head.
VIEWS.table = (section, view) => {
  const isNumber = column => view.rows.every(row => row[column] === null || typeof row[column] === "number");
  const numbers = view.columns.map((_, column) => isNumber(column));
  // What is short, and what is to be typed, is not broken.
  const isEach = (column, holds) => view.rows.every(row => typeof row[column] === "string" && holds(row[column]));
  const kind = column => numbers[column] ? "number" :
    view.rows.length && isEach(column, text => text.startsWith("mote ")) ? "text code" :
    isEach(column, text => text.length <= 28) ? "text short" : "text";
  const kinds = view.columns.map((_, column) => kind(column));
  const body = make("tbody");
  const rows = view.rows.map(values => {
    const cells = values.map((value, column) => make("td", {class: kinds[column]},
      value === null ? "" : numbers[column] ? grouped(value) : value));
    return {values, element: make("tr", {}, ...cells)};
  });
  let sorted = null, isUp = false;
  const order = () => body.replaceChildren(...rows.map(row => row.element));
  const heads = view.columns.map((name, column) => make("th", {
    class: numbers[column] ? "number" : "text",
    onclick: () => {
      isUp = sorted === column ? !isUp : !numbers[column];
      sorted = column;
      const key = row => row.values[column] === null ? -Infinity : row.values[column];
      rows.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (isUp ? 1 : -1));
      order();
    },
  }, name));
  order();
  section.append(make("div", {class: "scroll"},
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body)));
  return {
    search(pattern) {
      let count = 0;
      for (const row of rows) {
        const is = pattern !== null && row.values.some(value => typeof value === "string" && pattern.test(value));
        row.element.classList.toggle("found", is);
        count += is ? 1 : 0;
      }
      const first = rows.find(row => row.element.classList.contains("found"));
      if (first) first.element.scrollIntoView({block: "nearest"});
      return count ? `${count} rows` : "";
    },
  };
};
