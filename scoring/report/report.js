"use strict";
(() => {
  // The cells table: filters, sorting, pages; the address says which cells are chosen, so that every number can lead here.
  const PAGE = 100;
  const data = JSON.parse(document.getElementById("cell-data").textContent);
  const columns = data.columns;
  const byKey = new Map(columns.map((column) => [column.key, column]));
  const count = columns.length ? (columns[0].codes || columns[0].texts || columns[0].numbers).length : 0;
  const sets = new Map(Object.entries(data.sets).map(([name, tasks]) => [name, new Set(tasks)]));
  const table = document.getElementById("cell-table");
  const filters = document.getElementById("cell-filters");
  const pages = document.getElementById("cell-pages");
  const counter = document.getElementById("cell-count");
  const state = { chosen: new Map(), words: "", key: null, down: false, page: 0 };
  let shown = [];

  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    if (text !== null) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };

  const value = (column, row) => {
    if (column.codes) return column.codes[row] < 0 ? null : column.words[column.codes[row]];
    return (column.texts || column.numbers)[row];
  };

  const matches = (row) => {
    for (const [key, allowed] of state.chosen) {
      if (key === "set") {
        const task = value(byKey.get("task"), row);
        if (!allowed.some((name) => sets.has(name) && sets.get(name).has(task))) return false;
      } else if (byKey.has(key)) {
        const found = value(byKey.get(key), row);
        if (!allowed.includes(found === null ? "" : String(found))) return false;
      }
    }
    if (!state.words) return true;
    return columns.some((column) => {
      const found = value(column, row);
      return found !== null && String(found).toLowerCase().includes(state.words);
    });
  };

  const compare = (column, direction) => (one, other) => {
    const a = value(column, one), b = value(column, other);
    if (a === b) return one - other;
    if (a === null) return 1; // what is unknown stands last, whichever way
    if (b === null) return -1;
    return (a < b ? -1 : 1) * direction;
  };

  const choose = () => {
    shown = [];
    for (let row = 0; row < count; row += 1) if (matches(row)) shown.push(row);
    if (state.key !== null) shown.sort(compare(byKey.get(state.key), state.down ? -1 : 1));
  };

  const head = () => {
    const line = make("tr", null);
    for (const column of columns) {
      const cell = make("th", null, { scope: "col" });
      const button = make("button", column.title, { type: "button" });
      if (state.key === column.key) {
        cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        button.textContent = `${column.title} ${state.down ? "▾" : "▴"}`;
      }
      button.addEventListener("click", () => {
        state.down = state.key === column.key && !state.down;
        state.key = column.key;
        draw();
        table.querySelector(`thead th:nth-child(${columns.indexOf(column) + 1}) button`).focus();
      });
      cell.append(button);
      line.append(cell);
    }
    const part = make("thead", null);
    part.append(line);
    return part;
  };

  const body = () => {
    const part = make("tbody", null);
    for (const row of shown.slice(state.page * PAGE, (state.page + 1) * PAGE)) {
      const line = make("tr", null);
      columns.forEach((column, place) => {
        const found = value(column, row);
        const text = found === null ? "–" : String(found);
        const cell = make(place ? "td" : "th", text, place ? {} : { scope: "row" });
        if (column.numbers) cell.className = "number";
        line.append(cell);
      });
      part.append(line);
    }
    return part;
  };

  const turn = () => {
    const last = Math.max(0, Math.ceil(shown.length / PAGE) - 1);
    pages.hidden = last === 0;
    const step = (text, to) => {
      const button = make("button", text, { type: "button" });
      button.disabled = to < 0 || to > last;
      button.addEventListener("click", () => { state.page = to; draw(); });
      return button;
    };
    const told = make("span", `page ${state.page + 1} of ${last + 1}`);
    pages.replaceChildren(step("previous", state.page - 1), told, step("next", state.page + 1));
  };

  const told = () => {
    const parts = [...state.chosen].map(([key, allowed]) => `${key} ${allowed.join(" or ")}`);
    if (state.words) parts.push(`with “${state.words}”`);
    counter.textContent = `${shown.length} of ${count} cells${parts.length ? ": " + parts.join(", ") : ""}`;
  };

  const draw = () => {
    choose();
    state.page = Math.min(state.page, Math.max(0, Math.ceil(shown.length / PAGE) - 1));
    table.replaceChildren(head(), body());
    turn();
    told();
  };

  const address = () => {
    const query = new URLSearchParams();
    for (const [key, allowed] of state.chosen) for (const one of allowed) query.append(key, one);
    history.replaceState(null, "", String(query) ? `#cells?${query}` : "#cells");
  };

  const selects = new Map();
  const search = make("input", null, { type: "search", "aria-label": "Search in all columns" });

  const reflect = () => {
    for (const [key, select] of selects) {
      const allowed = state.chosen.get(key) || [];
      select.value = allowed.length === 1 ? allowed[0] : "";
    }
    search.value = state.words;
  };

  const controls = () => {
    const labelled = (title, control) => {
      const label = make("label", title);
      label.append(control);
      return label;
    };
    search.addEventListener("input", () => { state.words = search.value.trim().toLowerCase(); state.page = 0; draw(); });
    filters.append(labelled("search", search));
    for (const key of data.filters) {
      const select = make("select", null, { "data-key": key });
      select.append(make("option", "all", { value: "" }));
      for (const word of byKey.get(key).words) select.append(make("option", word, { value: word }));
      select.addEventListener("change", () => {
        if (select.value) state.chosen.set(key, [select.value]); else state.chosen.delete(key);
        state.page = 0;
        address();
        draw();
      });
      selects.set(key, select);
      filters.append(labelled(byKey.get(key).title, select));
    }
    const all = make("button", "all cells", { type: "button" });
    all.addEventListener("click", () => { state.chosen.clear(); state.words = ""; state.page = 0; address(); reflect(); draw(); });
    filters.append(all);
    filters.hidden = false;
  };

  const follow = (move) => {
    if (!location.hash.startsWith("#cells?")) return;
    const query = new URLSearchParams(location.hash.slice("#cells?".length));
    state.chosen = new Map([...new Set(query.keys())].map((key) => [key, query.getAll(key)]));
    state.words = "";
    state.page = 0;
    reflect();
    draw();
    if (move) document.getElementById("cells").scrollIntoView();
  };

  const open = () => {
    const target = location.hash.startsWith("#comparison-") && document.getElementById(location.hash.slice(1));
    if (target) target.open = true;
  };

  controls();
  draw();
  follow(true);
  open();
  addEventListener("hashchange", () => { follow(true); open(); });
  // A link to the cells that are shown already changes no address; it still leads there.
  addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a");
    const to = link && link.getAttribute("href");
    if (to && to === location.hash && to.startsWith("#cells")) follow(true);
  });
  let opened = []; // for paper everything is opened, and closed again afterwards
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
})();
