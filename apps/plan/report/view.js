// The part [from, to) of [0, size) that a chart shows, and the ways to change it: buttons, dragging,
// Ctrl and the wheel, arrow keys.
class View {
  constructor(size, least) {
    this.size = size;
    this.least = Math.min(least, size);
    this.from = 0;
    this.to = size;
  }
  get span() { return this.to - this.from; }
  set(from, span) {
    const kept = Math.min(this.size, Math.max(this.least, span));
    this.from = Math.min(Math.max(0, from), this.size - kept);
    this.to = this.from + kept;
    this.draw();
  }
  zoom(factor, at = this.from + this.span / 2) {
    const span = Math.min(this.size, Math.max(this.least, this.span / factor));
    this.set(at - ((at - this.from) * span) / this.span, span);
  }
  pan(by) { this.set(this.from + by, this.span); }
}

// `draw(width)` draws into the chart and returns { svg, left, plot }: where its plot begins and how wide it is.
function zoomable(chartId, toolsId, view, draw) {
  const chart = byId(chartId);
  let drawn = null;
  view.draw = () => {
    drawn = draw(Math.max(320, chart.clientWidth));
    chart.replaceChildren(drawn.svg);
  };
  const at = (event) => {
    const x = event.clientX - chart.getBoundingClientRect().left - drawn.left;
    return view.from + (Math.min(Math.max(0, x), drawn.plot) / drawn.plot) * view.span;
  };
  const button = (text, title, action) => {
    const made = el("button", { type: "button", title }, text);
    made.addEventListener("click", action);
    return made;
  };
  byId(toolsId).replaceChildren("drag to move, Ctrl + wheel to zoom",
    button("−", "zoom out", () => view.zoom(0.5)), button("+", "zoom in", () => view.zoom(2)),
    button("all", "show everything", () => view.set(0, view.size)));
  chart.classList.add("zoomable");
  chart.tabIndex = 0;
  chart.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -0.1, ArrowRight: 0.1 }[event.key];
    if (by) view.pan(by * view.span);
    if (event.key === "+" || event.key === "-") view.zoom(event.key === "+" ? 1.5 : 1 / 1.5);
  });
  chart.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    view.zoom(Math.exp(-event.deltaY / 300), at(event));
  }, { passive: false });
  chart.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const start = { x: event.clientX, from: view.from };
    const move = (e) => view.set(start.from - ((e.clientX - start.x) / drawn.plot) * view.span, view.span);
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  });
  new ResizeObserver(() => view.draw()).observe(chart);
  view.draw();
  return at;
}
