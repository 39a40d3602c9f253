// The page's head, and everything drawn.
function drawHead() {
  const { plan } = report;
  document.title = `neap plan: ${plan.net}, batch ${plan.batch}`;
  byId("net").textContent = plan.net;
  const setting = [["batch", plan.batch], ["", `${plan.dtype} ${plan.layout}`], ["on", plan.device],
    ["policy", plan.policy], ...(plan.accounting === "paper" ? [["accounting as in the", "SuperNeurons paper"]] : [])];
  byId("setting").replaceChildren(...setting.flatMap(([before, value], i) =>
    [i > 0 ? " · " : "", before ? `${before} ` : "", el("b", {}, String(value))]));
}

function tile(label, value, detail, part) {
  const meter = part === undefined ? null
    : el("div", { class: "meter" }, el("i", { style: `width:${Math.min(100, 100 * part)}%` }));
  return el("div", { class: "tile" }, el("div", { class: "label" }, label), el("div", { class: "value" }, value),
    el("div", { class: "detail" }, detail), meter);
}

function drawTiles() {
  const { plan, timeline, runs, transfers, tensors } = report;
  const reruns = runs.filter((run) => run.recompute);
  const stalled = report.stalls.reduce((sum, stall) => sum + stall.end_us - stall.begin_us, 0);
  const moved = transfers.reduce((sum, transfer) => sum + tensors[transfer.tensor].bytes, 0);
  const rerunTime = reruns.reduce((sum, run) => sum + run.end_us - run.begin_us, 0);
  byId("tiles").replaceChildren(
    tile("Peak", bytesText(plan.peak_bytes), `${grouped(plan.peak_bytes)} bytes`,
      plan.peak_bytes / Math.max(1, plan.budget_bytes)),
    tile("Budget", bytesText(plan.budget_bytes), `${bytesText(plan.budget_bytes - plan.peak_bytes)} unused`),
    tile("Peak in host memory", bytesText(plan.host_peak_bytes), transfers.length === 0 ? "nothing is moved"
      : `${bytesText(moved)} moved in ${plural(transfers.length, "transfer")}` +
        (plan.peer_peak_bytes > 0 ? `; ${bytesText(plan.peer_peak_bytes)} at most on the peer` : "")),
    tile("Predicted time", timeText(timeline.total_us), `per iteration; compute waits ${timeText(stalled)}`),
    tile("Steps run", grouped(runs.length), reruns.length === 0 ? "none recomputed"
      : `${plural(reruns.length, "recomputation")}, ${timeText(rerunTime)}`),
    tile("Tensors", grouped(tensors.length), bytesText(tensors.reduce((sum, t) => sum + t.bytes, 0)) + " in all"));
}

function drawSummary() {
  const { plan, runs, tensors } = report;
  if (runs.length === 0) return;
  const all = tensors.reduce((sum, t) => sum + t.bytes, 0);
  const count = (fate) => tensors.filter((t) => t.fates.includes(fate)).length;
  const parts = [[count("offloaded"), "offloaded"], [count("rebuilt"), "rebuilt when needed again"],
    [count("in place"), "written over another tensor"], [count("freed"), "freed after their last use"],
    [count("kept"), "kept throughout"]].filter(([n]) => n > 0).map(([n, text]) => `${grouped(n)} ${text}`);
  byId("summary").textContent = `${plural(tensors.length, "tensor")} take ${bytesText(all)} together; the arena ` +
    `never holds more than ${bytesText(plan.peak_bytes)} (${percentText(plan.peak_bytes, all)}): ` +
    `${parts.join(", ")}. The most bytes are live at ${runTitle(runs[busiestRun()])}.`;
}

// For tools that read the page.
function publishTotals() {
  Object.assign(document.body.dataset, {
    peakBytes: report.plan.peak_bytes, hostPeakBytes: report.plan.host_peak_bytes,
    budgetBytes: report.plan.budget_bytes,
    tensors: byId("tensor-table").tBodies[0].rows.length, runs: byId("step-table").tBodies[0].rows.length,
    totalUs: report.timeline.total_us, busiestStep: report.runs.length > 0 ? report.runs[busiestRun()].step + 1 : 0,
    ready: "yes" });
}

function chooseTheme(theme) { document.documentElement.dataset.theme = theme; }
chooseTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
byId("theme").addEventListener("click", () =>
  chooseTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

drawHead();
drawTiles();
drawSummary();
new MemoryChart();
new TimelineChart();
drawCurve();
drawComparison();
drawTensors();
drawSteps();
publishTotals();
