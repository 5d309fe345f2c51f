// Copyright (c) 2026, the glidein.ops authors
// SPDX-License-Identifier: GPL-3.0-or-later
// Reloads the page's data regularly, and filters the sites. The page is complete without this script.
"use strict";
(() => {
  const LONGEST_REQUEST_MS = 30000;
  const refreshMs = 1000 * Number(document.body.dataset.refresh);
  const filter = document.getElementById("filter");
  const opened = new Map(); // state of the folded parts before the filter opened them
  let timer = 0;
  let newest = 0;

  /** Show the sites whose text contains every word of the filter, and open the parts with a match. */
  function applyFilter() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    let all = 0;
    for (const part of document.querySelectorAll("#sites-parts .scroll")) {
      let here = 0;
      for (const body of part.querySelectorAll("tbody")) {
        const text = body.textContent.toLowerCase();
        body.hidden = !words.every((word) => text.includes(word));
        here += body.hidden ? 0 : 1;
        all += 1;
      }
      found += here;
      const folded = part.closest("details");
      if (!folded) continue;
      if (words.length && !opened.has(folded.id)) opened.set(folded.id, folded.open);
      if (words.length) folded.open = here > 0;
      else if (opened.has(folded.id)) folded.open = opened.get(folded.id);
    }
    if (!words.length) opened.clear();
    document.querySelector(".filter").hidden = all < 2 && !words.length;
    document.getElementById("filter-found").textContent = words.length ? `${found} of ${all} sites` : "";
  }

  /** Replace the parts of this page by those of a newer one, except `kept`. Folds, scroll positions and focus stay. */
  function replaceParts(fresh, kept) {
    const focused = document.activeElement;
    const holder = focused && focused.closest("[id]");
    const wasSummary = focused && focused.tagName === "SUMMARY";
    for (const old of document.querySelectorAll("[data-live]")) {
      const part = fresh.getElementById(old.id);
      if (!part || old.id === kept) continue;
      for (const folded of part.querySelectorAll("details[id]")) {
        const known = document.getElementById(folded.id);
        if (known) folded.open = known.open;
      }
      const scrolled = [...old.querySelectorAll(".scroll[id]")].map((box) => [box.id, box.scrollLeft]);
      old.replaceWith(document.adoptNode(part));
      for (const [id, left] of scrolled) {
        const box = document.getElementById(id);
        if (box) box.scrollLeft = left;
      }
    }
    const again = holder && !document.contains(focused) && document.getElementById(holder.id);
    if (again) (wasSummary ? again.querySelector("summary") : again).focus({ preventScroll: true });
    document.title = fresh.title;
    document.body.dataset.refresh = fresh.body.dataset.refresh;
    announce(document.getElementById("problems").dataset.announcement);
    applyFilter();
    document.dispatchEvent(new CustomEvent("glidein:renewed"));
  }

  /** Announce a text to screen readers, once for each change. */
  function announce(text) {
    const status = document.getElementById("said");
    if (status.textContent !== text) status.textContent = text;
  }

  /** Load the page's data. withJob: also ask the schedds for the job in the address again. */
  async function load(withJob) {
    const mine = ++newest;
    const address = new URL(location.href);
    if (!withJob) address.searchParams.delete("job");
    const failed = document.getElementById("failed");
    try {
      const answer = await fetch(address, { signal: AbortSignal.timeout(LONGEST_REQUEST_MS), cache: "no-store" });
      if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
      const text = await answer.text();
      if (mine !== newest) return; // a later request has overtaken this one
      replaceParts(new DOMParser().parseFromString(text, "text/html"), withJob ? "" : "job-result");
      failed.hidden = true;
    } catch (error) {
      if (mine !== newest) return;
      failed.textContent = `These numbers are out of date: the server does not respond (${error.message}). Check its service and your network.`;
      failed.hidden = false;
    }
    scheduleRefresh();
  }

  function scheduleRefresh() {
    clearTimeout(timer);
    timer = setTimeout(refresh, refreshMs);
  }

  function refresh() {
    // Postpone while the page is hidden or the user selects text.
    if (document.hidden || !document.getSelection().isCollapsed) return scheduleRefresh();
    return load(false);
  }

  // A link to a folded row opens the part that contains it.
  function reveal() {
    const row = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!row) return;
    const folded = row.closest("details:not([open])");
    if (folded) {
      folded.open = true;
      row.scrollIntoView();
    }
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-range], #reload");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (link.dataset.range) {
      const address = new URL(location.href);
      address.searchParams.set("range", link.dataset.range);
      address.hash = "charts";
      history.replaceState(null, "", address);
    }
    load(!link.dataset.range);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });
  filter.addEventListener("input", applyFilter);
  window.addEventListener("hashchange", reveal);
  announce(document.getElementById("problems").dataset.announcement);
  applyFilter(); // a browser may restore the filter after a reload
  reveal();
  scheduleRefresh();
})();
