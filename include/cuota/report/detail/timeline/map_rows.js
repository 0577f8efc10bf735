// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// ---- The segments at one time, each a row of blocks and gaps.

// A block is live until it is freed; afterwards, pending work may use it until its completion is known.
function useAt(i, t) {
  if (t < blocks.from[i]) return null;
  if (t < blocks.until[i]) return "live";
  return t < blocks.completed[i] ? "pending" : null;
}

const isThere = (lives, i, t) => lives.from[i] <= t && t < lives.until[i];
const byAddress = (lives) => (a, b) => lives.region[a] - lives.region[b] || lives.offset[a] - lives.offset[b];

function thereAt(lives, isPickedAt) {
  const found = [];
  for (let i = 0; i < lives.count; ++i) if (state.picked.has(lives.source[i]) && isPickedAt(i)) found.push(i);
  return found.sort(byAddress(lives));
}

function rowsAt(t) {
  const there = thereAt(blocks, (i) => useAt(i, t) !== null);
  const live = there.filter((i) => useAt(i, t) === "live");
  const rows = segmentRows(thereAt(segments, (i) => isThere(segments, i, t)), live);
  const loose = new Map();
  for (const i of there) {
    const row = rowOf(rows, blocks.region[i], blocks.offset[i]);
    if (row) row.blocks.push({life: i, offset: blocks.offset[i] - row.offset, bytes: blocks.size[i], use: useAt(i, t)});
    else if (useAt(i, t) === "live") looseRow(loose, i);
  }
  return rows.concat([...loose.values()]).map(withGaps);
}

// Adjacent pages form one row, as do segments that one block spans.
function segmentRows(there, live) {
  const rows = [];
  for (const i of there) {
    const last = rows[rows.length - 1];
    const isNext = last && last.region === segments.region[i] && last.offset + last.bytes === segments.offset[i];
    if (isNext && (data.sources[last.source]?.paged || liesAcross(live, last.region, segments.offset[i])))
      last.bytes += segments.bytes[i];
    else rows.push({source: segments.source[i], region: segments.region[i], offset: segments.offset[i],
      bytes: segments.bytes[i], blocks: [], isLoose: false});
  }
  return rows;
}

// Returns the index of the last entry, in order of address, that begins before `offset` of a region; -1 if none does.
function lastBefore(count, regionAt, offsetAt, region, offset) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (regionAt(middle) < region || (regionAt(middle) === region && offsetAt(middle) < offset)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function liesAcross(live, region, offset) {
  const at = lastBefore(live.length, (i) => blocks.region[live[i]], (i) => blocks.offset[live[i]], region, offset);
  return at >= 0 && blocks.region[live[at]] === region && blocks.offset[live[at]] + blocks.size[live[at]] > offset;
}

function rowOf(rows, region, offset) {
  const row = rows[lastBefore(rows.length, (i) => rows[i].region, (i) => rows[i].offset, region, offset + 0.5)];
  return row && row.region === region && offset < row.offset + row.bytes ? row : null;
}

// Memory outside of pools, or of a pool without recorded segments: blocks side by side.
function looseRow(loose, i) {
  const source = blocks.source[i];
  if (!loose.has(source)) loose.set(source, {source, region: -1, offset: 0, bytes: 0, blocks: [], isLoose: true});
  const row = loose.get(source);
  row.blocks.push({life: i, offset: row.bytes, bytes: blocks.size[i], use: "live"});
  row.bytes += blocks.size[i];
}

function withGaps(row) {
  row.gaps = [];
  row.live = row.pending = 0;
  let known = 0;
  const gap = (until) => { if (until > known) row.gaps.push({offset: known, bytes: until - known}); };
  for (const block of row.blocks) {
    row[block.use] += block.bytes;
    gap(block.offset);
    known = Math.max(known, block.offset + block.bytes);
  }
  gap(row.bytes);
  row.largestGap = row.gaps.reduce((most, g) => Math.max(most, g.bytes), 0);
  return row;
}

function addressText(region, offset) {
  const hex = (BigInt(data.regions[region].address) + BigInt(offset)).toString(16);
  return `0x${hex}`;
}

const addressOf = (row, block) =>
  row.isLoose ? addressText(blocks.region[block.life], blocks.offset[block.life])
    : addressText(row.region, row.offset + block.offset);
