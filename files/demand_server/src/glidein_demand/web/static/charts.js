// Copyright (c) 2026, the glidein.ops authors
// SPDX-License-Identifier: GPL-3.0-or-later
// Draws the history of GET /history (format: web/charts.py) with Chart.js. Times are epoch seconds, UTC.
"use strict";
(() => {
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const HOUR = 3600;
  const DAY = 24 * HOUR;
  const WAITS = [1, 10, 60, 600, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY];
  const drawn = new Map(); // id of the figure: its Chart
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const choice = document.getElementById("site-count");
  let data = null;

  const two = (number) => String(number).padStart(2, "0");
  const at = (seconds) => new Date(1000 * seconds);
  const day = (date) => `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  const clock = (date) => `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  const full = (seconds) => `${DAYS[at(seconds).getUTCDay()]} ${day(at(seconds))} ${at(seconds).getUTCFullYear()}, ${clock(at(seconds))} UTC`;
  const count = (number) => number.toLocaleString("en", { maximumFractionDigits: number < 10 ? 1 : 0 });

  function duration(seconds) {
    if (seconds < 120 && seconds !== 60) return `${Math.round(seconds)} s`;
    if (seconds < 2 * HOUR && seconds !== HOUR) return `${Math.round(seconds / 60)} min`;
    if (seconds < 2 * DAY && seconds !== DAY) return `${Math.round(seconds / HOUR)} h`;
    return `${Math.round(seconds / DAY)} d`;
  }

  /** Return the ticks of the time axis: whole hours, days or months of UTC. */
  function ticks(since, until, range) {
    const found = [];
    if (range === "year") {
      for (let month = at(since).getUTCMonth() + 1, year = at(since).getUTCFullYear(); ; month += 1) {
        const time = Date.UTC(year, month, 1) / 1000;
        if (time > until) return found;
        found.push(time);
      }
    }
    const step = { day: 3 * HOUR, week: DAY, month: 5 * DAY }[range];
    for (let time = Math.ceil(since / step) * step; time <= until; time += step) found.push(time);
    return found;
  }

  function tick(seconds, range) {
    const date = at(seconds);
    if (range === "year") return date.getUTCMonth() === 0 ? String(date.getUTCFullYear()) : MONTHS[date.getUTCMonth()];
    if (range === "day" && date.getUTCHours() !== 0) return clock(date);
    return range === "week" ? `${DAYS[date.getUTCDay()]} ${date.getUTCDate()}` : day(date);
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    return { text: of("text"), quiet: of("quiet"), line: of("line"), ground: of("ground"), rest: of("rest"),
      series: Array.from({ length: 10 }, (_unused, index) => of(`s${index + 1}`)) };
  }

  const points = (times, values) => times.map((time, index) => ({ x: time, y: values[index] }));
  const isKnown = (value) => value !== null && value !== undefined;

  /** Return the options of all charts. x, y: scales; label: the text of a tooltip's line. */
  function options(colour, x, y, title, label) {
    const scale = { grid: { color: colour.line, drawTicks: false }, border: { display: false } };
    const ticksOf = { color: colour.quiet, padding: 6, maxRotation: 0, autoSkipPadding: 12 };
    return {
      animation: false, maintainAspectRatio: false, normalized: true,
      interaction: { mode: "index", axis: "x", intersect: false },
      scales: {
        x: { ...scale, ...x, grid: { display: false }, ticks: { ...ticksOf, ...x.ticks } },
        y: { ...scale, beginAtZero: true, ...y, ticks: { ...ticksOf, maxTicksLimit: 6, ...y.ticks } },
      },
      plugins: {
        legend: { position: "bottom", align: "start", labels: { color: colour.text, boxWidth: 14, boxHeight: 8, padding: 10 } },
        tooltip: { callbacks: { title: (items) => title(items[0]), label } },
      },
    };
  }

  function timeAxis() {
    return {
      type: "linear", min: data.since, max: data.until,
      afterBuildTicks: (scale) => { scale.ticks = ticks(data.since, data.until, data.range).map((value) => ({ value })); },
      ticks: { callback: (value) => tick(value, data.range) },
    };
  }

  const counted = (item) => ` ${item.dataset.label}: ${count(item.parsed.y)}`;
  const atTime = (item) => full(item.parsed.x);
  const whole = { ticks: { precision: 0, callback: (value) => count(value) } };

  function demand(colour) {
    const { times } = data.pool;
    const line = (label, key, index, more) => ({
      label, data: points(times, data.pool[key]), borderColor: colour.series[index], backgroundColor: colour.series[index],
      borderWidth: 2, pointRadius: times.length > 1 ? 0 : 3, pointHitRadius: 6, pointStyle: "line", ...more,
    });
    const datasets = [
      line("Idle jobs", "idle_jobs", 0), line("Idle cores", "idle_cores", 1),
      line("Cores of glideins", "glidein_cores", 2, { borderDash: [6, 4] }),
      line("Busy cores of glideins", "glidein_cores_claimed", 5, { borderDash: [2, 3] }),
    ];
    const chosen = options(colour, timeAxis(), whole, atTime, counted);
    Object.assign(chosen.plugins.legend.labels, { usePointStyle: true, pointStyleWidth: 28 });
    return { type: "line", data: { datasets }, options: chosen };
  }

  function sites(colour) {
    const { times, series } = data.sites;
    // If any site's value is known at a time, an unknown value is drawn as zero; otherwise the areas have a gap.
    const known = times.map((_time, index) => series.some((site) => isKnown(site[choice.value][index])));
    const datasets = series.map((site, index) => ({
      label: site.name,
      data: points(times, site[choice.value].map((value, when) => (known[when] ? value || 0 : null))),
      backgroundColor: site.rest ? colour.rest : colour.series[index % 10], borderColor: colour.ground, borderWidth: 0.6,
      fill: "stack", pointRadius: 0, pointHitRadius: 6,
    }));
    const y = { stacked: true, ...whole };
    const chosen = options(colour, timeAxis(), y, atTime, (item) => (item.parsed.y ? counted(item) : ""));
    chosen.plugins.tooltip.filter = (item) => item.parsed.y > 0;
    return { type: "line", data: { datasets }, options: chosen };
  }

  function waits(colour) {
    // The axis has no zero. A wait without a known neighbour has no line, only its point.
    const values = data.pool.job_wait_s.map((wait) => (isKnown(wait) ? Math.max(1, wait) : null));
    const line = {
      label: "Mean wait", data: points(data.pool.times, values), borderColor: colour.series[0],
      backgroundColor: colour.series[0], borderWidth: 2, pointRadius: 2, pointHitRadius: 6,
    };
    const y = {
      type: "logarithmic", min: 1,
      afterBuildTicks: (scale) => { scale.ticks = WAITS.filter((value) => value <= scale.max).map((value) => ({ value })); },
      ticks: { callback: (value) => duration(value), autoSkip: false },
    };
    const label = (item) => ` ${item.dataset.label}: ${duration(item.parsed.y)}`;
    return { type: "line", data: { datasets: [line] }, options: options(colour, timeAxis(), y, atTime, label) };
  }

  const weekAxis = (rows) => ({ type: "category", labels: rows.map((row) => day(at(row.week))) });
  const ofWeek = (rows) => (item) => `Week of ${day(at(rows[item.dataIndex].week))} ${at(rows[item.dataIndex].week).getUTCFullYear()}`;

  function share(colour) {
    const rows = data.share;
    const y = { min: 0, max: 100, ticks: { callback: (value) => `${value} %` } };
    const label = (item) => ` ${item.parsed.y} %: ${count(rows[item.dataIndex].used_core_hours)} core-hours`;
    const chosen = options(colour, weekAxis(rows), y, ofWeek(rows), label);
    chosen.plugins.tooltip.callbacks.footer = (items) => `Other machines: ${count(rows[items[0].dataIndex].other_core_hours)} core-hours`;
    const bars = { label: "Share of core-hours done by glideins", data: rows.map((row) => row.percent), backgroundColor: colour.series[0], maxBarThickness: 40 };
    return { type: "bar", data: { labels: rows.map((row) => row.week), datasets: [bars] }, options: chosen };
  }

  function work(colour) {
    const { step, rows } = data.work;
    const named = (row) => (step === "hour" ? clock(at(row.time)) : day(at(row.time)));
    const title = (item) => (step === "hour" ? full(rows[item.dataIndex].time) : `${step === "week" ? "Week of " : ""}${day(at(rows[item.dataIndex].time))} ${at(rows[item.dataIndex].time).getUTCFullYear()}`);
    const bars = (label, key, index) => ({ label, data: rows.map((row) => row[key]), backgroundColor: colour.series[index], maxBarThickness: 24 });
    const chosen = options(colour, { type: "category", labels: rows.map(named) }, whole, title, counted);
    const datasets = [bars("Granted", "granted_core_hours", 2), bars("Used", "used_core_hours", 5)];
    return { type: "bar", data: { labels: rows.map((row) => row.time), datasets }, options: chosen };
  }

  const FIGURES = { "chart-demand": demand, "chart-sites": sites, "chart-waits": waits, "chart-share": share, "chart-work": work };

  /** Redraw all charts. A chart without data is hidden, and the page shows a text instead. */
  function draw() {
    if (!data) return;
    const colour = colours();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    for (const [id, make] of Object.entries(FIGURES)) {
      const figure = document.getElementById(id);
      const place = figure.querySelector(".plot");
      const canvas = place.querySelector("canvas");
      const caption = document.querySelector(`#${id}-data caption`); // null without data
      if (drawn.has(id)) drawn.get(id).destroy();
      drawn.delete(id);
      place.hidden = caption === null;
      if (place.hidden) continue;
      canvas.setAttribute("aria-label", caption.textContent);
      drawn.set(id, new Chart(canvas, make(colour)));
    }
    document.querySelector(".choice").hidden = !drawn.has("chart-sites");
  }

  async function load() {
    const range = document.querySelector("#ranges [aria-current]").dataset.range;
    try {
      const answer = await fetch(`history?range=${range}`, { cache: "no-store" });
      if (!answer.ok) return; // page.js reports that the server does not respond; the tables remain
      data = await answer.json();
    } catch {
      return;
    }
    draw();
  }

  choice.addEventListener("change", draw);
  dark.addEventListener("change", draw);
  document.addEventListener("glidein:renewed", load);
  load();
})();
