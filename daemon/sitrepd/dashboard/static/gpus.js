/* Charts of the GPUs over time: fetched once, then only what is new; launches and benchmarks are bands behind them. */
(() => {
  "use strict";
  const box = document.getElementById("charts");
  if (!box || typeof uPlot === "undefined") return;
  const LENGTH_S = Number(box.dataset.length);
  const POINTS = Math.min(600, Math.max(150, Math.round(box.clientWidth / 2)));
  const GIB = 2 ** 30;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const sync = uPlot.sync("gpus");
  let past = null;
  let plots = [];

  const figures = [...box.querySelectorAll("figure")];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function colour(place, count) {
    const hue = Math.round((place * 360) / Math.max(count, 1) + 205) % 360;
    return `hsl(${hue} 65% ${dark.matches ? 66 : 40}%)`;
  }

  function column(gpu, figure) {
    const { metric } = figure.dataset;
    const told = metric === "throttled" ? gpu.throttled : gpu.metrics[metric];
    if (metric === "memory_used_bytes") return told.map((value) => (value === null ? null : value / GIB));
    return metric === "throttled" ? told.map((value) => (value === null ? null : 100 * value)) : told;
  }

  function said(value, unit) {
    if (value === null || value === undefined) return "–";
    return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${unit}`;
  }

  /* Calls `each(band, from, to, colour)` for the bands of a kind that are in sight, in order; one that goes on
     reaches to the right edge. */
  function across(plot, kind, each) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const right = bbox.left + bbox.width;
    const mine = past.bands.filter((one) => one.kind === kind);
    for (const band of mine.sort((one, other) => Date.parse(one.since) - Date.parse(other.since))) {
      const from = plot.valToPos(Date.parse(band.since) / 1000, "x", true);
      const to = band.until ? plot.valToPos(Date.parse(band.until) / 1000, "x", true) : right;
      if (to >= bbox.left && from <= right) each(band, from, to, css(kind === "launch" ? "--loading" : "--warming"));
    }
    ctx.restore();
  }

  /* Below the grid and the lines; where several overlap it gets no darker. */
  function bands(plot) {
    const { ctx, bbox } = plot;
    for (const kind of ["launch", "benchmark"]) {
      let filled = -Infinity;
      across(plot, kind, (_, from, to, edge) => {
        const start = Math.max(from, filled);
        const end = Math.max(to, from + 1);
        ctx.fillStyle = edge;
        ctx.globalAlpha = kind === "launch" ? 0.1 : 0.2;
        if (end > start) ctx.fillRect(start, bbox.top, end - start, bbox.height);
        filled = Math.max(filled, end);
        ctx.globalAlpha = 0.55;
        ctx.fillRect(from, bbox.top, devicePixelRatio, bbox.height);
      });
    }
  }

  /* Above them, launches in one row and benchmarks in the next; what finds no room has none. */
  function names(plot) {
    const { ctx, bbox } = plot;
    for (const [row, kind] of ["launch", "benchmark"].entries()) {
      let free = -Infinity;
      across(plot, kind, (band, from, to, edge) => {
        ctx.font = `600 ${11 * devicePixelRatio}px system-ui, sans-serif`;
        ctx.textBaseline = "top";
        ctx.textAlign = "left";
        const name = band.id || band.name || "";
        const left = Math.max(from, bbox.left) + 3 * devicePixelRatio;
        const width = ctx.measureText(name).width;
        if (left < free || to - left < width) return;
        const top = bbox.top + (2 + 14 * row) * devicePixelRatio;
        ctx.fillStyle = css("--panel");
        ctx.globalAlpha = 0.75;
        ctx.fillRect(left - devicePixelRatio, top, width + 2 * devicePixelRatio, 12 * devicePixelRatio);
        ctx.fillStyle = edge;
        ctx.globalAlpha = 1;
        ctx.fillText(name, left, top);
        free = left + width + 6 * devicePixelRatio;
      });
    }
  }

  function drawn(figure) {
    const { unit } = figure.dataset;
    const muted = css("--muted");
    const grid = { stroke: css("--line"), width: 1 };
    const place = figure.querySelector(".plot");
    place.replaceChildren();
    const axis = { stroke: muted, grid, ticks: grid, font: "11px system-ui, sans-serif" };
    const series = past.gpus.map((gpu, at) => ({
      label: `GPU ${gpu.index}`, stroke: colour(at, past.gpus.length), width: 1.25, spanGaps: false,
      points: { show: false }, value: (_, value) => said(value, unit),
    }));
    const whole = unit === "%" ? [0, 100] : null;
    const options = {
      width: place.clientWidth, height: 210,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { sync: { key: sync.key }, drag: { x: true, y: false } },
      scales: { x: { time: true }, y: { range: (_, low, high) => whole || [0, Math.max(high || 0, 1) * 1.08] } },
      axes: [
        { ...axis, values: clock(), space: 76 },
        { ...axis, size: unit === "MHz" ? 76 : 62, values: (_, ticks) => ticks.map((tick) => `${tick} ${unit}`) },
      ],
      series: [{ label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }, ...series],
      hooks: { drawClear: [bands], draw: [names], setSelect: [(plot) => { plot.zoomed = plot.select.width > 0; }] },
    };
    const plot = new uPlot(options, data(figure), place);
    plot.over.addEventListener("dblclick", () => {
      for (const one of plots) {
        one.zoomed = false;
        one.setScale("x", edges());
      }
    });
    return plot;
  }

  /* Hours of a day, and the day where another one begins. */
  function clock() {
    const day = "{YYYY}-{MM}-{DD}";
    return [
      [86400, day, null, null, null, null, null, null, 1],
      [3600, "{HH}:{mm}", `\n${day}`, null, `\n${day}`, null, null, null, 1],
      [60, "{HH}:{mm}", `\n${day}`, null, `\n${day}`, null, null, null, 1],
      [1, "{HH}:{mm}:{ss}", `\n${day}`, null, `\n${day}`, null, null, null, 1],
    ];
  }

  const data = (figure) => [past.at, ...past.gpus.map((gpu) => column(gpu, figure))];
  const edges = () => {
    const until = Date.parse(past.until) / 1000;
    return { min: until - LENGTH_S, max: until };
  };

  function draw() {
    for (const plot of plots) plot.destroy();
    plots = figures.map(drawn);
    for (const plot of plots) plot.setScale("x", edges());
  }

  function refresh() {
    figures.forEach((figure, at) => {
      const zoomed = plots[at].zoomed;
      plots[at].setData(data(figure), false);
      if (!zoomed) plots[at].setScale("x", edges());
    });
  }

  /* What was known before the first new bucket stays; what has become too old goes. */
  function added(news) {
    const oldest = Date.parse(news.until) / 1000 - LENGTH_S;
    const first = Date.parse(news.since) / 1000;
    const keep = past.at.map((at, place) => [at, place]).filter(([at]) => at >= oldest && at < first);
    const before = new Map(past.gpus.map((gpu) => [gpu.index, gpu]));
    const joined = (old, told) => [...keep.map(([, place]) => (old ? old[place] : null)), ...told];
    const gpus = news.gpus.map((gpu) => {
      const old = before.get(gpu.index);
      const metrics = Object.fromEntries(
        Object.entries(gpu.metrics).map(([name, told]) => [name, joined(old?.metrics[name], told)]),
      );
      return { ...gpu, metrics, throttled: joined(old?.throttled, gpu.throttled) };
    });
    const ids = new Set(news.bands.map((band) => band.id));
    const still = past.bands.filter((band) => band.until && !ids.has(band.id) && Date.parse(band.until) / 1000 > oldest);
    const alike = gpus.length === past.gpus.length;
    past = { ...news, at: [...keep.map(([at]) => at), ...news.at], gpus, bands: [...still, ...news.bands] };
    return alike;
  }

  async function fetched() {
    const query = new URLSearchParams({ length_s: LENGTH_S, points: POINTS });
    if (past && past.at.length) query.set("after", past.at[past.at.length - 1]);
    const answer = await fetch(`/api/v1/gpus/past?${query}`, { headers: { Accept: "application/json" } });
    if (answer.status === 401) location.reload();
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.json();
  }

  async function look() {
    if (document.hidden && past) return;
    try {
      const news = await fetched();
      if (!past) {
        past = news;
        draw();
      } else if (added(news)) {
        refresh();
      } else {
        draw();
      }
      box.dataset.state = "drawn";
    } catch {
      box.dataset.state = "lost";
    }
  }

  async function go() {
    await look();
    setTimeout(go, 1000 * Math.min(60, Math.max(2, past ? past.bucket_s : 2)));
  }

  dark.addEventListener("change", () => past && draw());
  document.addEventListener("visibilitychange", look);
  new ResizeObserver(() => {
    plots.forEach((plot, at) => {
      const width = figures[at].querySelector(".plot").clientWidth;
      if (width !== plot.width) plot.setSize({ width, height: plot.height });
    });
  }).observe(box);
  go();
})();
