// A table that sorts by any column. A column is { title, hint, key(row), cell(row), number }: rows
// are sorted by `key`; `cell` is a text, an element or a list of them. An optional column is left out if
// all its values are zero.
class Table {
  constructor(id, columns, rows, attributes, sorted = null) {
    this.table = byId(id);
    this.columns = columns.filter((column) => !column.optional || rows.some((row) => column.key(row) !== 0));
    this.attributes = attributes;
    this.rows = rows;
    this.sorted = sorted;  // { title, ascending }
    this.body = el("tbody", {});
    // How many columns stand beside the first one where a story has a line of its own (style.css).
    this.table.style.setProperty("--others", this.columns.filter((column) => column.style !== "story").length - 1);
    this.head = this.columns.map((column) => {
      const cell = el("th", { title: column.hint || "", scope: "col" }, column.title);
      if (column.style) cell.classList.add(column.style);
      if (column.number) cell.classList.add("number");
      cell.addEventListener("click", () => this.sortBy(column));
      return cell;
    });
    this.table.replaceChildren(el("thead", {}, el("tr", {}, ...this.head)), this.body);
    this.lines = new Map(rows.map((row) => [row, this.line(row)]));
    this.draw();
  }
  line(row) {
    return el("tr", this.attributes(row), ...this.columns.map((column) => {
      const cell = el("td", { class: [column.style || "", column.number ? "number" : ""].join(" ").trim() });
      if (column.number && column.key(row) === 0) cell.classList.add("zero");
      cell.append(...[column.cell(row)].flat());
      return cell;
    }));
  }
  sortBy(column) {
    const again = this.sorted && this.sorted.title === column.title;
    this.sorted = { title: column.title, ascending: again ? !this.sorted.ascending : !column.number };
    this.draw();
  }
  show(isShown) {
    this.isShown = isShown;
    this.draw();
  }
  draw() {
    const shown = this.isShown ? this.rows.filter(this.isShown) : [...this.rows];
    this.head.forEach((cell) => cell.removeAttribute("aria-sort"));
    if (this.sorted) {
      const at = this.columns.findIndex((column) => column.title === this.sorted.title);
      const { key } = this.columns[at];
      const sign = this.sorted.ascending ? 1 : -1;
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
      shown.sort((a, b) => sign * compare(key(a), key(b)));
      this.head[at].setAttribute("aria-sort", this.sorted.ascending ? "ascending" : "descending");
    }
    this.body.replaceChildren(...shown.map((row) => this.lines.get(row)));
    this.shown = shown;
  }
}
