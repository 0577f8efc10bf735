// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// ---- The recording: columns of numbers, one entry per life (allocation).

const data = JSON.parse(byId("cuota-data").textContent);
const blocks = livesOf(data.blocks);
const segments = livesOf(data.segments);
const tagOfSite = data.sites.map((site) => site.tag);
const pools = data.sources.map((s, i) => ({...s, index: i})).filter((s) => s.kind === "pool" || s.kind === "resource");
const whole = wholeTime();

function livesOf(columns) {
  const lives = {count: columns.from.length};
  for (const [name, numbers] of Object.entries(columns)) lives[name] = Float64Array.from(numbers);
  lives.from = lives.from.map((t) => (t < 0 ? -Infinity : t));    // live before the first event
  lives.until = lives.until.map((t) => (t < 0 ? Infinity : t));   // live after the last
  lives.source = Uint16Array.from(columns.region, (r) => data.regions[r].source);
  return lives;
}

// The shown range extends slightly beyond the first and last event, to show memory that was live before and after.
function wholeTime() {
  const span = Math.max(data.to - data.from, 1000);
  return {from: data.from - span * 0.01, to: data.from + span * 1.01};
}

const sourceName = (i) => shownText(data.sources[i]?.name || data.sources[i]?.kind || `source ${i}`);
const siteOf = (i) => data.sites[i] ?? data.sites[0];
const tagName = (tag) => shownText(data.tags[tag]) || "untagged";

// The begins are sorted; this sorts the ends and merges both. At equal times, ends come first: a life includes its
// begin and excludes its end.
function changesOf(lives, isPicked) {
  const picked = [];
  for (let i = 0; i < lives.count; ++i) if (isPicked(lives.source[i]) && lives.from[i] < lives.until[i]) picked.push(i);
  const ends = Uint32Array.from(picked.filter((i) => lives.until[i] !== Infinity));
  ends.sort((a, b) => lives.until[a] - lives.until[b]);
  const changes = {count: 0, time: new Float64Array(picked.length * 2), life: new Uint32Array(picked.length * 2),
    sign: new Int8Array(picked.length * 2)};
  let end = 0;
  for (const i of picked) {
    while (end < ends.length && lives.until[ends[end]] <= lives.from[i]) addChange(changes, lives.until, ends[end++], -1);
    addChange(changes, lives.from, i, 1);
  }
  while (end < ends.length) addChange(changes, lives.until, ends[end++], -1);
  return changes;
}

function addChange(changes, times, life, sign) {
  changes.time[changes.count] = times[life];
  changes.life[changes.count] = life;
  changes.sign[changes.count++] = sign;
}

// Returns the number of changes up to and including `t`.
function changesUntil(changes, t) {
  let low = 0;
  let high = changes.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes.time[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}
