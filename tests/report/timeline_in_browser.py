# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Uses timelines as a person would, in headless Chromium: what they show is what the events say, added up here anew.

CUOTA_MAKE_TIMELINE names the program that writes a page and its events (tests/report/pages/make_timeline.cpp).
"""

import bisect
import collections
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's selenium is there, and not in a Python of another origin
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and "CUOTA_OTHER_PYTHON" not in os.environ:
        os.environ["CUOTA_OTHER_PYTHON"] = sys.executable
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    print("SKIPPED: timeline_in_browser needs selenium, which is not here")
    sys.exit(77)

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if not BROWSER or not DRIVER:
    print("SKIPPED: timeline_in_browser needs chromium and chromedriver, which are not here")
    sys.exit(77)

ALLOCATED, FREED, COMPLETED, SEGMENT, _, REFUSED, RECLAIMED, _, _, NOTED = range(10)


def check(claim, holds, *shown):
    if not holds:
        sys.exit("\n".join(["NOT SO: " + claim, *(str(s)[:600] for s in shown)]))


def bytes_text(n):
    """As cuota::bytes_text."""
    if n < 1024:
        return f"{n} B"
    unit = 0
    n /= 1024
    while n >= 1023.95:
        n /= 1024
        unit += 1
    return f"{n:.1f} {'KMGTPE'[unit]}iB"


class Recording:
    """The lives in a recording, by a way of its own: a walk over the events, then what the snapshot has besides."""

    def __init__(self, path):
        known = json.loads(path.read_text())
        self.sites = known["sites"]
        self.events = known["events"]
        self.lives = []  # source, address, size, tag, from, until
        self.segments = []  # address, size, from
        self.waiting = []  # address, size, given back at, completed at
        opened, ended = {}, {}
        for kind, source, site, at, address, size_asked, size in self.events:
            if kind == ALLOCATED:
                opened[source, address] = len(self.lives)
                self.lives.append([source, address, size, self.sites[site][0], at, math.inf])
            elif kind == FREED and (source, address) in opened:
                ended[source, address] = opened.pop((source, address))
                self.lives[ended[source, address]][5] = at
            elif kind == FREED:
                self.lives.append([source, address, size, self.sites[site][0], -math.inf, at])
            elif kind == COMPLETED and (source, address) in ended:
                life = self.lives[ended.pop((source, address))]
                self.waiting.append((address, life[2], life[5], at))
            elif kind == SEGMENT:
                self.segments.append((address, size_asked, at))
        taken = {address for address, _, _ in self.segments}
        for address, size, tag in known["held"]:
            if tag == "segment":
                if address not in taken:
                    self.segments.append((address, size, -math.inf))
            elif (3, address) not in opened:
                self.lives.append([3, address, size, tag, -math.inf, math.inf])
        self._levels()

    def _levels(self):
        deltas = collections.Counter()
        for _, _, size, _, begin, end in self.lives:
            deltas[begin] += size
            deltas[end] -= size
        self.times = sorted(deltas)
        self.levels = []
        level = 0
        for t in self.times:
            level += deltas[t]
            self.levels.append(level)

    def total(self, t):
        return self.levels[bisect.bisect_right(self.times, t) - 1]

    def most_in(self, begin, end):
        """The most that was live at once from begin on, before end."""
        first, last = bisect.bisect_right(self.times, begin), bisect.bisect_left(self.times, end)
        return max([self.total(begin), *self.levels[first:last]])

    def tags(self, t):
        sums = collections.Counter()
        for _, _, size, tag, begin, end in self.lives:
            if begin <= t < end:
                sums[tag] += size
        return dict(sums)

    def live(self, t):
        return sorted((address, size, tag) for _, address, size, tag, begin, end in self.lives if begin <= t < end)

    def pending(self, t):
        return sorted((address, size) for address, size, given, done in self.waiting if given <= t < done)

    def reserved(self, t):
        return sum(size for _, size, begin in self.segments if begin <= t)

    def marks(self, *kinds):
        return [e for e in self.events if e[0] in kinds]


class Page:
    """A page in the browser, and what it says of itself."""

    def __init__(self, driver, path, width=1280, theme="light"):
        self.driver = driver
        driver.set_window_size(width, 1000)
        driver.get(path.as_uri())
        self.ask("cuotaTimeline.theme(arguments[0])", theme)
        self.settle()

    def ask(self, script, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def settle(self):
        """Until what was asked for is drawn: two frames, the second of which begins after the first one ended."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))")

    def state(self):
        return self.ask("cuotaTimeline.state()")

    def find(self, name):
        return self.driver.find_element(By.ID, name)

    def text(self, name):
        return self.ask("document.getElementById(arguments[0]).textContent", name)

    def point(self, x, y, then=lambda actions: actions):
        """Moves the pointer to (x, y) of the chart, counted from its upper left corner."""
        plot = self.find("plot")
        self.ask("arguments[0].scrollIntoView({block: 'center'})", plot)
        middle = (plot.size["width"] / 2, plot.size["height"] / 2)
        actions = ActionChains(self.driver, duration=0)
        then(actions.move_to_element_with_offset(plot, round(x - middle[0]), round(y - middle[1]))).perform()
        self.settle()

    def press(self, *keys):
        plot = self.find("plot")
        for key in keys:
            plot.send_keys(key)
        self.settle()

    def legend(self):
        """What the legend has at the cursor: by the key of a total, or by tag."""
        return self.ask("Object.fromEntries([...document.querySelectorAll('#legend tbody tr')].map((r) => "
                        "[r.dataset.key ?? cuotaTimeline.data.tags[r.dataset.tag], r.cells[1].textContent]))")


def check_values(page, events):
    pick = random.Random(3)
    for t in [pick.uniform(0, events.events[-1][3]) for _ in range(40)] + pick.sample(events.times, 20):
        if math.isinf(t):
            continue
        facts = page.ask("cuotaTimeline.at(arguments[0])", t)
        check("the bytes by tag are those of the events", facts["tags"] == events.tags(t), t, facts, events.tags(t))
        check("the total is their sum", facts["total"] == events.total(t) == sum(events.tags(t).values()))
        check("what is reserved is what was taken", facts["reserved"] == events.reserved(t), facts, events.reserved(t))
    peak = page.ask("cuotaTimeline.peak()")
    check("the peak is the highest level", peak["total"] == max(events.levels) == events.total(peak["at"]), peak)


def check_hover(page, events):
    area = page.state()["area"]
    for share in (0.02, 0.21, 0.5, 0.77, 0.98):
        x = round(area["left"] + share * area["width"])
        page.point(x, area["top"] + area["height"] - 5)
        now = page.state()
        view, span = now["view"], now["view"]["to"] - now["view"]["from"]
        per_pixel = span / round(area["width"])
        pixel = math.floor((now["cursor"] - view["from"]) / per_pixel)
        check("the cursor is where the pointer is", abs(pixel - (x - area["left"])) <= 2, x, now)
        begin = view["from"] + pixel * per_pixel
        check("at the most in its pixel, so that no peak is lost",
              events.total(now["cursor"]) == events.most_in(begin, begin + per_pixel), now)
        tags = events.tags(now["cursor"])
        shown = page.legend()
        check("the legend says what was live", shown.pop("total") == bytes_text(sum(tags.values())), shown, tags)
        check("and reserved", shown.pop("reserved") == bytes_text(events.reserved(now["cursor"])))
        check("and by tag", shown == {tag: bytes_text(tags.get(tag, 0)) for tag in shown}, shown, tags)
        check("the readout says it in words", f": {bytes_text(sum(tags.values()))} live, " in page.text("readout"))
        # The lowest band is the largest of those that never change: adam's.
        check("the tip names tag, bytes and place",
              page.text("tip") == f"adam: {bytes_text(tags['adam'])}optimizer.cpp:88", page.text("tip"))
    page.ask("document.activeElement.blur()")


def check_areas(page, events):
    """The areas are drawn where their bytes are, in the colors of the legend."""
    t = page.state()["view"]["to"] - 1  # past the last event: all that the pixel is of
    x = page.ask("cuotaTimeline.xOf(arguments[0]) - 3", t)
    drawn = page.ask("((x) => { const c = document.getElementById('areas'), s = c.width / c.clientWidth; return ["
                     "...c.getContext('2d').getImageData(x * s, 0, 1, c.height).data] })(arguments[0])", x)
    per_pixel = len(drawn) // 4 / page.find("plot").size["height"]
    below = 0
    for band in page.ask("cuotaTimeline.bands(arguments[0])", t):
        if band["bytes"] > 2**26:
            row = round(page.ask("cuotaTimeline.yOf(arguments[0])", below + band["bytes"] / 2) * per_pixel)
            pixel = drawn[row * 4:row * 4 + 4]
            wanted = [int(band["color"][i:i + 2], 16) for i in (1, 3, 5)]
            check("an area is where its bytes are, in its color", pixel[:3] == wanted, band, pixel, wanted)
        below += band["bytes"]
    check("the areas are all that is live", below == events.total(t), below, events.total(t))


def check_marks(page, events):
    refusal, = events.marks(REFUSED)
    page.point(page.ask("cuotaTimeline.xOf(arguments[0])", refusal[3]), 29)
    check("a refusal tells its size and place", "3.0 GiB refused to logits at head.cpp:33, by training" in page.text("tip"),
          page.text("tip"))
    rows = page.find("marks").text
    check("all that happened is listed", all(word in rows for word in ("warm-up over", "refused by training", "64.0 MiB")))
    check("limits are said", "The limit of GPU 0 is 80.0 GiB" in page.text("notes"))
    check("what was there before is said", "allocated before the first event" in page.text("notes"))
    check("a limit far beyond does not ruin the scale", page.state()["top"] < 12 * 2**30)


def check_map(page, events):
    area = page.state()["area"]
    for share in (0.3, 0.62):
        page.point(area["left"] + share * area["width"], area["top"] + area["height"] / 2, lambda a: a.click())
        pinned = page.state()["pinned"]
        check("a click opens the map of that moment", page.find("map-section").is_displayed() and pinned is not None)
        rows = page.ask("cuotaTimeline.shownMap()")
        blocks = sorted((int(b["address"], 16), b["bytes"], b["tag"]) for r in rows for b in r["blocks"] if b["use"] == "live")
        check("the map has the blocks that were live", blocks == events.live(pinned), len(blocks), len(events.live(pinned)))
        pending = sorted((int(b["address"], 16), b["bytes"]) for r in rows for b in r["blocks"] if b["use"] == "pending")
        check("and those that work may still use", pending == events.pending(pinned), pending, events.pending(pinned))
        rows = [r for r in rows if not r["isLoose"]]
        segments = sorted((int(r["address"], 16), r["bytes"]) for r in rows)
        check("and the segments", segments == sorted(s[:2] for s in events.segments if s[2] <= pinned), segments)
        check("no block leaves its segment", all(b["offset"] + b["bytes"] <= r["bytes"] for r in rows for b in r["blocks"]))
    row = rows[0]
    block = max((b for b in row["blocks"] if b["use"] == "live"), key=lambda b: b["bytes"])
    canvas = page.find("map-canvas")
    x = row["box"]["x"] + (block["offset"] + block["bytes"] / 2) / row["bytes"] * row["box"]["width"]
    ActionChains(page.driver, duration=0).move_to_element_with_offset(
        canvas, round(x - canvas.size["width"] / 2), round(row["box"]["y"] + 9 - canvas.size["height"] / 2)).perform()
    check("a block tells tag, size and address",
          all(word in page.text("map-tip") for word in (block["tag"], bytes_text(block["bytes"]), block["address"])),
          page.text("map-tip"), block)
    ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
    check("Escape closes it", not page.find("map-section").is_displayed() and page.state()["pinned"] is None)


def check_pending(page, events):
    pick = random.Random(5)
    for _, _, given, done in pick.sample(events.waiting, 20):
        t = (given + done) / 2
        rows = page.ask("cuotaTimeline.map(arguments[0])", t)
        found = sorted((int(b["address"], 16), b["bytes"]) for r in rows for b in r["blocks"] if b["use"] == "pending")
        check("what work may still use is in the map", found == events.pending(t) != [], t, found, events.pending(t))


def check_keys(page, events):
    page.ask("document.getElementById('plot').focus()")
    page.press("p")
    peak = page.ask("cuotaTimeline.peak()")["at"]
    check("P goes to the peak", page.state()["cursor"] == peak)
    whole = page.state()["view"]
    span = whole["to"] - whole["from"]
    page.press(Keys.ARROW_LEFT)
    check("an arrow moves the cursor by a hundredth", math.isclose(page.state()["cursor"], peak - span / 100, rel_tol=1e-9))
    page.press(Keys.SHIFT + Keys.ARROW_LEFT)
    check("with Shift by a tenth", math.isclose(page.state()["cursor"], peak - span * 0.11, rel_tol=1e-9), page.state(), peak)
    now = page.state()["cursor"]
    value = page.find("plot").get_attribute("aria-valuetext")
    check("readers of screens hear it", f"{bytes_text(events.total(now))} live" in value, value)
    page.press("+", "+")
    view = page.state()["view"]
    check("+ zooms in", math.isclose(view["to"] - view["from"], span / 4, rel_tol=1e-6))
    check("the cursor stays in view", view["from"] <= now <= view["to"])
    page.press("-")
    view = page.state()["view"]
    check("- zooms out", math.isclose(view["to"] - view["from"], span / 2, rel_tol=1e-6))
    page.press("0")
    check("0 shows all", page.state()["view"] == whole)
    page.press("+", Keys.HOME)
    check("Home shows all", page.state()["view"] == whole)
    page.ask("cuotaTimeline.zoomTo(arguments[0], arguments[1])", whole["to"] - span / 500, whole["to"])
    page.press("p")
    view = page.state()["view"]
    check("what is gone to comes into view", view["from"] < peak < view["to"], view, peak)
    page.press("0")
    marks = events.marks(REFUSED, RECLAIMED, NOTED)
    page.press(*[Keys.SHIFT + Keys.ARROW_LEFT] * 11)
    for mark in marks:
        page.press("n")
        check("N goes from mark to mark", page.state()["cursor"] == mark[3], page.state(), mark)
    page.press(Keys.ENTER)
    check("Enter opens the map", page.find("map-section").is_displayed() and page.state()["pinned"] == marks[-1][3])
    page.press(Keys.ESCAPE)
    check("Escape closes it, by keys, too", not page.find("map-section").is_displayed())
    check_tab_order(page)


def check_tab_order(page):
    reached = []
    for _ in range(24):  # round the page once: from the chart on to its end, and from its begin
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        reached.append(page.ask("document.activeElement.id || document.activeElement.textContent.slice(0, 40)"))
    for name in ("theme", "sources", "to-peak", "zoom-in", "zoom-out", "zoom-all", "plot", "adam"):
        check("Tab reaches every control", name in reached, name, reached)


def check_zoom(page):
    area = page.state()["area"]
    whole = page.state()["view"]
    x = area["left"] + area["width"] / 4
    page.point(x, area["top"] + 100)
    plot = page.find("plot")
    origin = ScrollOrigin.from_element(plot, round(x - plot.size["width"] / 2), 0)
    ActionChains(page.driver).scroll_from_origin(origin, 0, -400).perform()
    page.settle()
    view = page.state()["view"]
    span = view["to"] - view["from"]
    check("the wheel zooms in", span < 0.7 * (whole["to"] - whole["from"]), whole, view)
    at = whole["from"] + (whole["to"] - whole["from"]) / 4
    check("what was under the pointer stays there", abs((at - view["from"]) / span - 0.25) < 0.01, view)
    page.point(x + 200, area["top"] + 100, lambda a: a.click_and_hold().move_by_offset(-100, 0).release())
    moved = page.state()["view"]
    check("dragging pans", math.isclose(moved["from"] - view["from"], 100 / area["width"] * span, rel_tol=0.03), view, moved)
    check("dragging opens nothing", page.state()["pinned"] is None)
    page.find("zoom-all").click()
    page.settle()
    check("All shows all", page.state()["view"] == whole)


def check_legend(page):
    row = page.driver.find_element(By.CSS_SELECTOR, "#legend tr.tag")
    tag = page.ask("cuotaTimeline.data.tags[arguments[0].dataset.tag]", row)
    before = page.state()["top"]
    row.click()
    button = row.find_element(By.TAG_NAME, "button")
    check("a click hides a tag", page.state()["hidden"] == [tag] and button.get_attribute("aria-pressed") == "false")
    row.click()
    check("another one shows it", page.state()["hidden"] == [] and page.state()["top"] == before)


def check_filter(page, events):
    choices = page.ask("[...document.querySelectorAll('#sources option')].map((o) => o.textContent)")
    check("each pool can be picked", choices == ["all memory", "main", "staging (pinned)"], choices)
    page.find("sources").send_keys("staging")
    page.settle()
    facts = page.ask("cuotaTimeline.at(arguments[0])", events.events[-1][3])
    check("a picked pool is alone", set(facts["tags"]) == {"staging"} and facts["reserved"] == 0, facts)
    check("and the scale is its own", page.state()["top"] < 2**30)
    page.ask("cuotaTimeline.filter(null)")


def check_labels(page):
    width = page.find("plot").size["width"]
    labels = page.ask("cuotaTimeline.labels()")
    check("there are labels", sum(1 for l in labels if l["text"]) >= 6, labels)
    for i, a in enumerate(labels):
        check("labels lie within the chart", a.get("isGlyph") or (a["x"] >= 0 and a["x"] + a["width"] <= width + 0.5), a, width)
        for b in labels[:i]:
            both_glyphs = a.get("isGlyph") and b.get("isGlyph")
            apart = (a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"] or
                     a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"])
            check("no two labels overlap", both_glyphs or apart, a, b)
    check("nothing is wider than the window", page.ask("document.documentElement.scrollWidth <= window.innerWidth"))


def check_looks(driver, path, widths=(360, 520, 768, 1280, 2560)):
    for width in widths:
        for theme in ("light", "dark"):
            page = Page(driver, path, width, theme)
            check("the theme is the one asked for", page.state()["theme"] == theme)
            whole = page.state()["view"]
            check_labels(page)
            for part in (2, 9, 1000):
                middle = whole["from"] + 0.37 * (whole["to"] - whole["from"])
                half = (whole["to"] - whole["from"]) / part / 2
                page.ask("cuotaTimeline.zoomTo(arguments[0], arguments[1])", middle - half, middle + half)
                page.settle()
                check_labels(page)
    driver.set_window_size(900, 1000)
    page.settle()
    check("a resized window is drawn anew", abs(page.state()["area"]["width"] - page.find("plot").size["width"]) < 90)
    check_labels(page)


def check_silence(driver):
    said = [entry for entry in driver.get_log("browser")]
    check("the console is empty", said == [], *said)
    for entry in driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            check("nothing is fetched but the page", url.startswith("file:") and url.endswith(".html"), url)


def check_hostile(driver, path, events):
    page = Page(driver, path)
    check("no name breaks out", page.ask("window.broken === undefined") and
          page.ask("document.querySelectorAll('script').length") == 2 and
          page.ask("document.querySelectorAll('img').length") == 0)
    facts = page.ask("cuotaTimeline.at(arguments[0])", events.events[-1][3])
    names = {name for name, _, _ in events.sites}
    check("all names are there", set(page.ask("cuotaTimeline.data.tags")) >= names, names)
    check("and their bytes", facts["total"] == 4096 * len(events.sites) and len(facts["tags"]) >= len(names) - 1, facts)
    check_labels(page)
    page.ask("cuotaTimeline.select(cuotaTimeline.peak().at)")
    page.point(600, 200, lambda a: a.click())
    check("no control character is shown, nor one that turns the text around",
          not page.ask(r"/[\u0000-\u0008\u001b\u007f\u202e\u2028]/.test(document.querySelector('main').textContent)"))
    check("no name breaks out of tips and maps", page.ask("window.broken === undefined"))


def check_crowded(driver, path, events):
    page = Page(driver, path)
    facts = page.ask("cuotaTimeline.at(cuotaTimeline.data.to)")
    check("all forty tags are counted", len(facts["tags"]) == 40 and facts["total"] == events.total(events.times[-2]), facts)
    peak = page.ask("cuotaTimeline.peak()")
    check("what is handed over at one instant is not there twice", peak["total"] == max(events.levels), peak)
    bands = page.ask("cuotaTimeline.bands(cuotaTimeline.data.to)")
    check("tags beyond the tenth are shown as one", [b["name"] for b in bands][-1] == "30 others" and len(bands) == 11, bands)
    check("and nothing is left out", sum(b["bytes"] for b in bands) == facts["total"], bands)
    check("those dropped are said", "1'234 events before the first one here were dropped" in page.text("notes"))
    check("a pool that is gone is said", "Destroyed before the end: segments" in page.text("notes"), page.text("notes"))
    rows = page.ask("cuotaTimeline.map(cuotaTimeline.data.to)")
    check("pages side by side are one row", [(r["source"], r["bytes"]) for r in rows] == [
        ("pages", 8 * 2**20), ("segments", 2 * 2**20)], [(r["source"], r["bytes"]) for r in rows])
    check("with all that is live in it", sum(r["live"] for r in rows) == events.total(events.times[-2]))
    check_looks(driver, path)


def check_odd(driver, path):
    """Pages of recordings that lack something: whatever is done to them, nothing goes wrong in silence."""
    page = path.read_text()
    begin = page.index('id="cuota-data">') + len('id="cuota-data">')
    end = page.index("</script>", begin)
    none = lambda lives: {name: [] for name in lives}
    full = json.loads(page[begin:end])
    gone = {"blocks": none(full["blocks"])}
    empty = gone | {"segments": none(full["segments"])}
    blocks_only = {"segments": none(full["segments"]), "marks": []}
    at_once = full["blocks"] | {"from": [5] * len(full["blocks"]["from"])}
    instant = {"from": 5, "to": 5, "marks": [], "segments": none(full["segments"]), "blocks": at_once}
    for i, change in enumerate((gone, empty, empty | {"sources": []}, blocks_only, instant)):
        odd = path.with_name(f"odd{i}.html")
        odd.write_text(page[:begin] + json.dumps(full | change) + page[end:])
        shown = Page(driver, odd)
        area = shown.state()["area"]
        for share in (0.1, 0.5, 0.9):
            shown.point(area["left"] + share * area["width"], area["top"] + area["height"] / 2, lambda a: a.click())
        shown.press("p", "n", "+", "-", "0", Keys.ENTER, Keys.ARROW_LEFT, Keys.ESCAPE)
        check("without blocks it is said that none was live",
              ("No block was live." in shown.text("summary")) == ("blocks" in change and i < 3), i, shown.text("summary"))
        check_silence(driver)


def browser():
    options = Options()
    options.binary_location = BROWSER
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


def make(folder, which):
    page, events = folder / f"{which}.html", folder / f"{which}.json"
    subprocess.run([os.environ["CUOTA_MAKE_TIMELINE"], str(which), page, events], check=True)
    return page, Recording(events)


def use(driver, path, events):
    started = time.monotonic()
    page = Page(driver, path)
    print(f"{len(events.events)} events: open and drawn after {time.monotonic() - started:.2f} s")
    check("the title is there", page.text("title") == "Training on synthetic digits" == driver.title)
    check_values(page, events)
    check_hover(page, events)
    check_areas(page, events)
    check_marks(page, events)
    check_map(page, events)
    check_pending(page, events)
    check_keys(page, events)
    check_zoom(page)
    check_legend(page)
    check_filter(page, events)


with tempfile.TemporaryDirectory() as scratch:
    scratch = pathlib.Path(scratch)
    driver = browser()
    try:
        for count in (100, 100_000):
            path, events = make(scratch, count)
            use(driver, path, events)
            check_looks(driver, path, (360, 1280, 2560))
            check_silence(driver)
        path, events = make(scratch, "hostile")
        check_hostile(driver, path, events)
        path, events = make(scratch, "crowded")
        check_crowded(driver, path, events)
        check_odd(driver, path)
        path, _ = make(scratch, 0)
        page = Page(driver, path)
        check("an empty recording says so", page.find("nothing").is_displayed() and not page.find("plot").is_displayed())
        check_silence(driver)
    finally:
        driver.quit()
