"""Opens the HTML page in a real, headless Chromium and uses it as a person would: hovers, clicks,
zooms, pans, switches runs and colours, and takes pictures of it.

usage: html_test.py path/to/ringsched path/to/chromium
"""

import base64
import itertools
import json
import os
import pathlib
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET
import zlib

PROGRAM, CHROMIUM = (os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1)) if len(sys.argv) > 2 else ("", "")
PATIENCE = 60  # seconds for any one answer
SHOTS = os.environ.get("RINGSCHED_SHOTS")  # a folder to keep the pictures in


class Browser:
    """Chromium, spoken to through pipes: its DevTools protocol, messages that end in a zero byte."""

    def __init__(self, folder, width=1200, height=760):
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()

        def connect():  # the browser reads from 3 and writes to 4
            os.setsid()
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--hide-scrollbars", "--no-first-run", "--disable-extensions", f"--window-size={width},{height}",
             f"--user-data-dir={folder}/profile", "about:blank"],
            preexec_fn=connect, pass_fds=(3, 4, to_read, to_write), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.ids, self.buffer, self.events, self.session = itertools.count(1), b"", [], None
        target = self.call("Target.createTarget", url="about:blank")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        for fd in (self.out, self.inp):
            os.close(fd)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def call(self, method, **params):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(deadline, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def receive(self, deadline, why):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.inp], [], [], left)[0]:
                raise TimeoutError(f"no answer to {why}")
            piece = os.read(self.inp, 1 << 20)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def open(self, path):
        self.call("Page.navigate", url=path.as_uri())
        self.wait("document.readyState == 'complete' && !!window.ringsched && ringsched.state().frames > 0")

    def ask(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not self.ask(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def settle(self):
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def mouse(self, kind, at, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=at["x"], y=at["y"], **more)
        self.settle()

    def click(self, at):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, at, button="left", clickCount=1)

    def key(self, key, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def state(self):
        return self.ask("ringsched.state()")

    def complaints(self):
        return [e for e in self.events
                if e["method"] == "Runtime.exceptionThrown"
                or (e["method"] == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning"))
                or (e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error")]

    def shot(self, name):
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if SHOTS:
            pathlib.Path(SHOTS, name + ".png").write_bytes(png)
        return pixels(png)


def pixels(png):
    """The rows of an 8-bit PNG, as bytes: (width, height, channels, rows)."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data, head = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", png[at + 8:at + 8 + length])
        elif kind == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += 12 + length
    width, height, depth, colour = head[:4]
    channels = {2: 3, 6: 4}[colour]
    assert depth == 8
    raw, stride, rows = zlib.decompress(data), width * channels, []
    before = bytearray(stride)
    for y in range(height):
        filtered, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a = line[i - channels] if i >= channels else 0
            b, c = before[i], before[i - channels] if i >= channels else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, nearest)[filtered]) & 255
        rows.append(bytes(line))
        before = line
    return width, height, channels, rows


def colours(image):
    width, _, channels, rows = image
    return {row[x * channels:x * channels + 3] for row in rows[::7] for x in range(0, width, 5)}


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.browser = Browser(cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.temporary.cleanup()

    def ringsched(self, *arguments):
        subprocess.run([PROGRAM, *map(str, arguments)], check=True, cwd=self.folder, timeout=120,
                       stdout=subprocess.DEVNULL)

    def page(self, *runs):
        """Opens the page of these runs; returns their timelines as read from their files."""
        files = []
        for i, flags in enumerate(runs):
            files.append(f"{i}.json")
            self.ringsched("simulate", "--no-chart", "--timeline", files[-1], *flags)
        self.ringsched("render", *files, "--output", "page.html")
        del self.browser.events[:]
        self.browser.open(self.folder / "page.html")
        return [json.loads((self.folder / f).read_text()) for f in files]

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def test_it_needs_nothing_from_outside(self):
        self.page(["--workers", "2"])
        text = (self.folder / "page.html").read_text()
        for name in ("http://www.w3.org/2000/svg", "url(#"):  # in what it saves
            text = text.replace(name, "")
        for word in ("http:", "https:", "src=", "@import", "url("):
            self.assertNotIn(word, text)
        self.assertEqual(self.browser.ask("performance.getEntriesByType('resource').length"), 0)

    def test_hovering_tells_what_a_task_is(self):
        [t] = self.page(["--machine", "dgx-a100", "--schedule", "balanced"])
        for task, row in enumerate(t["tasks"]):
            kind, worker, step, queries, other = t["kinds"][row[0]], row[2], row[4], row[5], row[6]
            if row[8] < 2e9 or task % 3:  # wide enough to be met
                continue
            self.browser.mouse("mouseMoved", self.browser.ask(f"ringsched.where({task})"))
            state = self.browser.state()
            with self.subTest(task=task, kind=kind):
                self.assertEqual(state["hovered"], task)
                self.assertIn(f"worker {worker}, step {step}, task {task}", state["tip"])
                self.assertIn(f"{row[8] / 1e9:.4g} ms", state["tip"])
                if kind == "attend":
                    self.assertTrue(state["tip"].startswith(f"q{queries} k{other}\n"))
                    self.assertEqual("helping" in state["tip"], queries != worker)
                    self.assertIn("pairs of one head", state["tip"])
        self.browser.mouse("mouseMoved", {"x": 3, "y": 3})
        self.assertEqual(self.browser.state()["tip"], "")

    def test_a_receive_tells_how_long_it_waited_for_its_sender(self):
        [t] = self.page(["--machine", "dgx-a100", "--schedule", "balanced", "--pass", "both"])
        waited = 0
        for task, row in enumerate(t["tasks"]):
            if t["kinds"][row[0]] != "receive" or row[8] < 1.5e9:
                continue
            both = max(row[7], t["tasks"][row[13][0]][7])
            if both - row[7] < 1e9:
                continue
            at = self.browser.ask(f"ringsched.where({task})")
            self.browser.mouse("mouseMoved", at)
            state = self.browser.state()
            if state["hovered"] == task:  # not under another
                waited += 1
                self.assertIn(f"waited {(both - row[7]) / 1e9:.4g} ms for worker {row[6]}", state["tip"])
        self.assertGreater(waited, 0)

    def test_a_click_shows_what_a_task_needs_and_who_needs_it(self):
        [t] = self.page(["--machine", "dgx-a100", "--schedule", "balanced"])
        task = next(i for i, r in enumerate(t["tasks"]) if t["kinds"][r[0]] == "attend" and r[5] != r[2])
        needs = set(t["tasks"][task][13])
        needed_by = {i for i, r in enumerate(t["tasks"]) if task in r[13]}
        self.assertTrue(needs and needed_by)
        before = self.browser.shot("plain")
        self.browser.click(self.browser.ask(f"ringsched.where({task})"))
        state = self.browser.state()
        self.assertEqual(state["selected"], task)
        self.assertEqual(set(state["related"]), needs | needed_by | {task})
        self.assertNotEqual(self.browser.shot("selected"), before)
        self.browser.key("Escape")
        state = self.browser.state()
        self.assertEqual((state["selected"], state["related"]), (-1, []))

    def test_the_wheel_zooms_around_the_pointer(self):
        [t] = self.page(["--machine", "dgx-a100", "--schedule", "zigzag"])
        middle = max(r[7] + r[8] for r in t["tasks"]) / 2  # far from both ends, where a window stops
        task = min((i for i, r in enumerate(t["tasks"]) if t["kinds"][r[0]] == "attend"),
                   key=lambda i: abs(t["tasks"][i][7] - middle))
        at = self.browser.ask(f"ringsched.where({task})")
        before = self.browser.state()
        for _ in range(4):
            self.browser.mouse("mouseWheel", at, deltaX=0, deltaY=-200)
        after = self.browser.state()
        self.assertLess(after["to"] - after["from"], 0.3 * (before["to"] - before["from"]))
        now = self.browser.ask(f"ringsched.where({task})")
        span = after["to"] - after["from"]
        grown = (before["to"] - before["from"]) / span
        self.assertAlmostEqual(now["x"], at["x"], delta=grown)  # the pointer is at whole pixels, and they grow
        self.browser.key("ArrowLeft")
        moved = self.browser.state()
        self.assertAlmostEqual((after["from"] - moved["from"]) / span, 1 / 8, places=6)
        self.browser.key("+", "+")
        self.assertLess(self.browser.state()["to"] - self.browser.state()["from"], span)
        self.browser.key("0", "0")
        fitted = self.browser.state()
        self.assertEqual((fitted["from"], fitted["to"]), (before["from"], before["to"]))

    def test_dragging_moves_the_time(self):
        self.page(["--machine", "dgx-a100"])
        self.browser.key("+", "+")
        self.browser.key("+", "+")
        before = self.browser.state()
        self.browser.mouse("mousePressed", {"x": 600, "y": 400}, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", {"x": 700, "y": 400}, button="left", buttons=1)
        self.browser.mouse("mouseReleased", {"x": 700, "y": 400}, button="left", clickCount=1)
        after = self.browser.state()
        self.assertLess(after["from"], before["from"])
        self.assertAlmostEqual(after["to"] - after["from"], before["to"] - before["from"], delta=1)
        self.assertEqual(after["selected"], -1, "a drag is no click")

    def test_runs_and_colours_can_be_switched(self):
        self.page(["--schedule", "ring"], ["--schedule", "zigzag", "--machine", "dgx-a100"], ["--schedule", "balanced"])
        self.assertEqual(self.browser.ask("document.getElementById('title').textContent"), "ring on ideal, 8 workers")
        self.browser.key("2", "2")
        self.assertEqual(self.browser.state()["run"], 1)
        self.assertEqual(self.browser.ask("document.getElementById('title').textContent"), "zigzag on dgx-a100, 8 workers")
        third = self.browser.ask("(b => ({x: b.left + 5, y: b.top + 5}))"
                                 "(document.getElementById('runs').children[2].getBoundingClientRect())")
        self.browser.click(third)
        self.assertEqual(self.browser.state()["run"], 2)
        light = self.browser.shot("light")
        self.browser.ask("document.getElementById('theme').click()")
        self.browser.settle()
        dark = self.browser.shot("dark")
        self.assertNotEqual(self.browser.state()["dark"], False)
        self.assertLess(sum(dark[3][-1]), sum(light[3][-1]) / 2, "the paper is dark")
        self.browser.key("p", "p")
        self.assertFalse(self.browser.state()["showPath"])

    def test_runs_of_about_one_length_share_a_time_scale(self):
        ring, zigzag = self.page(["--schedule", "ring"], ["--schedule", "zigzag"])
        longest = max(r[7] + r[8] for r in ring["tasks"])
        self.browser.key("2", "2")
        self.assertEqual(self.browser.state()["to"], longest)
        self.browser.ask("document.querySelector('#runs button:last-child').click()")
        self.assertEqual(self.browser.state()["to"], max(r[7] + r[8] for r in zigzag["tasks"]))
        self.browser.key("+", "+")
        before = self.browser.state()
        self.browser.key("1", "1")
        self.assertEqual([self.browser.state()[k] for k in ("from", "to")], [before[k] for k in ("from", "to")])

    def find(self, words):
        self.browser.ask(f"{{ const f = document.getElementById('find'); f.value = {json.dumps(words)};"
                         " f.dispatchEvent(new Event('input')); }")
        return self.browser.state()["found"]

    def test_names_say_which_part_of_a_share(self):
        [t] = self.page(["--schedule", "zigzag", "--workers", "4"])
        attends = [i for i, r in enumerate(t["tasks"]) if t["kinds"][r[0]] == "attend"]
        [back] = [i for i in attends if t["tasks"][i][5:7] == [1, 2]]
        [front] = [i for i in attends if t["tasks"][i][5:7] == [2, 1]]
        self.assertEqual(self.find("q1b k2"), [back])
        self.assertEqual(self.find("q2 k1a"), [front])

    def test_tasks_are_found_by_their_words(self):
        [t] = self.page(["--schedule", "balanced", "--workers", "12"])
        rows = list(enumerate(t["tasks"]))
        kind = lambda r: t["kinds"][r[0]]
        self.assertEqual(self.find("q7 k1"),
                         [i for i, r in rows if kind(r) == "attend" and (r[5], r[6]) == (7, 1)])
        self.assertEqual(self.find("worker 1"), [i for i, r in rows if r[2] == 1 and r[8]])
        self.assertEqual(self.find("Worker 1, step 2"), [i for i, r in rows if r[2] == 1 and r[4] == 2 and r[8]])
        self.assertEqual(self.find("no such task ["), [])
        self.assertIsNone(self.find("  "))
        found = self.find("k0")
        order = sorted(found, key=lambda i: (t["tasks"][i][7], i))
        self.assertGreater(len(order), 3)
        self.browser.ask("document.getElementById('find').focus()")
        for wanted in order[:3]:
            self.browser.key("Enter")
            self.assertEqual(self.browser.state()["selected"], wanted)
        self.browser.shot("found")
        self.browser.key("1", "1")  # a letter of the search, not a command
        self.assertEqual(self.browser.state()["run"], 0)
        self.browser.key("Escape")
        state = self.browser.state()
        self.assertEqual((state["found"], state["selected"]), (None, -1))

    def drag(self, first, last, **more):
        self.browser.mouse("mousePressed", first, button="left", clickCount=1, **more)
        self.browser.mouse("mouseMoved", {"x": (first["x"] + last["x"]) / 2, "y": last["y"]}, button="left", buttons=1, **more)
        self.browser.mouse("mouseMoved", last, button="left", buttons=1, **more)
        self.browser.mouse("mouseReleased", last, button="left", clickCount=1, **more)

    def test_a_span_is_measured_from_task_to_task(self):
        [t] = self.page(["--machine", "dgx-a100", "--schedule", "zigzag"])
        attends = [i for i, r in enumerate(t["tasks"]) if t["kinds"][r[0]] == "attend" and r[2] == 2]
        first, last = attends[1], attends[4]
        edge = lambda task, side: self.browser.ask(
            f"(p => ({{x: p.{side} + (({side!r} === 'left') ? 2 : -2), y: p.y}}))(ringsched.edges({task}))")
        before = self.browser.state()
        self.drag(edge(first, "left"), edge(last, "right"), modifiers=8)  # shift
        state = self.browser.state()
        begin, end = t["tasks"][first][7], t["tasks"][last][7] + t["tasks"][last][8]
        self.assertEqual(state["span"], [begin, end])
        self.assertTrue(state["measured"].startswith(f"{(end - begin) / 1e9:.4g} ms"), state["measured"])
        self.assertEqual((state["from"], state["to"]), (before["from"], before["to"]), "measuring does not move")
        self.browser.shot("measured")
        self.browser.key("Escape")
        self.assertIsNone(self.browser.state()["span"])
        top = self.browser.ask("document.getElementById('chart').getBoundingClientRect().top")
        self.drag({"x": 400, "y": top + 8}, {"x": 600, "y": top + 8})  # along the axis
        self.assertIsNotNone(self.browser.state()["span"])

    def test_help_stands_behind_a_question_mark(self):
        self.page(["--workers", "2"])
        hidden = "document.getElementById('keys').hidden"
        self.assertTrue(self.browser.ask(hidden))
        self.browser.key("?", "?")
        self.assertFalse(self.browser.ask(hidden))
        self.assertIn("measure a span", self.browser.ask("document.getElementById('keys').innerText"))
        self.browser.shot("help")
        self.browser.ask("document.getElementById('help').click()")
        self.assertTrue(self.browser.ask(hidden))

    def test_two_runs_stand_one_below_the_other(self):
        ring, zigzag = self.page(["--schedule", "ring", "--machine", "dgx-a100"],
                                 ["--schedule", "zigzag", "--machine", "dgx-a100"])
        self.browser.key("b", "b")
        state = self.browser.state()
        self.assertTrue(state["stacked"])
        self.assertEqual(state["to"], max(r[7] + r[8] for r in ring["tasks"]), "one time scale")
        box = self.browser.ask("(b => ({top: b.top, height: b.height}))(document.getElementById('chart').getBoundingClientRect())")
        self.browser.mouse("mouseMoved", {"x": 300, "y": box["top"] + 0.75 * box["height"]})
        self.assertEqual(self.browser.state()["run"], 1)
        task = next(i for i, r in enumerate(zigzag["tasks"]) if zigzag["kinds"][r[0]] == "attend" and r[2] == 5)
        at = self.browser.ask(f"ringsched.where({task})")
        self.assertGreater(at["y"], box["top"] + box["height"] / 2)
        self.browser.mouse("mouseMoved", at)
        self.assertEqual(self.browser.state()["hovered"], task)
        self.browser.mouse("mouseMoved", {"x": 300, "y": box["top"] + 0.25 * box["height"]})
        self.assertEqual(self.browser.state()["run"], 0)
        self.assertEqual(self.browser.ask("document.getElementById('title').textContent"),
                         "ring on dgx-a100, 8 workers and zigzag on dgx-a100, 8 workers")
        self.browser.shot("below")

    def test_two_runs_below_each_other_share_a_legend_and_hide_no_tick(self):
        self.page(["--schedule", "ring", "--machine", "dgx-a100"], ["--schedule", "balanced", "--machine", "dgx-a100"])
        legend = "[...document.getElementById('legend').children].map(e => e.textContent)"
        ring = self.browser.ask(legend)
        self.assertNotIn("help: another worker's queries", ring)
        self.browser.key("b", "b")
        both = self.browser.ask(legend)
        self.assertLessEqual(set(ring), set(both))
        self.assertIn("help: another worker's queries", both)
        self.assertEqual(len([e for e in both if e.startswith("K/V")]), 1)
        svg = "{http://www.w3.org/2000/svg}"
        words = list(ET.fromstring(self.browser.ask("ringsched.svg()")).iter(svg + "text"))
        heads = [e for e in words if "makespan" in e.text]
        self.assertEqual([e.text.split(" on ")[0] for e in heads], ["ring", "balanced"])
        ticks = [float(e.get("y")) for e in words if e.text.replace(" ms", "").isdigit()]
        self.assertEqual(len(set(ticks)), 2)
        for e in heads:
            self.assertGreater(min(abs(y - float(e.get("y"))) for y in ticks), 12)
        self.browser.shot("legend")
        self.browser.key("b", "b")
        self.assertEqual(self.browser.ask(legend), ring)

    def test_what_is_shown_is_saved_as_svg(self):
        [t] = self.page(["--machine", "dgx-a100", "--schedule", "balanced"])
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.folder))
        self.browser.ask("document.getElementById('save').click()")
        saved = self.folder / "balanced-on-dgx-a100-predicted.svg"
        deadline = time.monotonic() + PATIENCE
        while not saved.exists() or not saved.read_text().endswith("</svg>\n"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        root = ET.fromstring(saved.read_text())
        svg = "{http://www.w3.org/2000/svg}"
        self.assertIn("balanced on dgx-a100", root.findtext(svg + "title"))
        words = {e.text for e in root.iter(svg + "text")}
        self.assertTrue({f"worker {w}" for w in range(8)} <= words)
        named = {w for w in words if w.startswith("q")}
        attends = {f"q{r[5]} k{r[6]}" for r in t["tasks"] if t["kinds"][r[0]] == "attend"}
        self.assertTrue(named <= attends and len(named) > len(attends) / 2)
        rects = list(root.iter(svg + "rect"))
        self.assertGreater(len(rects), len(t["tasks"]))
        for e in rects:
            self.assertGreaterEqual(float(e.get("width")), 0)
        if SHOTS:
            pathlib.Path(SHOTS, "saved.svg").write_text(saved.read_text())

    def test_a_saved_run_that_did_not_end_says_so(self):
        [t] = self.page(["--machine", "dgx-a100"])
        self.assertNotIn(">INCOMPLETE", self.browser.ask("ringsched.svg()"))
        t |= {"incomplete": "process 1 is gone", "unfinished": [len(t["tasks"]) - 1]}
        (self.folder / "incomplete.json").write_text(json.dumps(t))
        self.ringsched("render", "incomplete.json", "--output", "page.html")
        self.browser.open(self.folder / "page.html")
        self.assertIn(">INCOMPLETE, given up after", self.browser.ask("ringsched.svg()"))

    def test_it_is_no_blank_page(self):
        for workers in (1, 2, 64):
            self.page(["--workers", str(workers), "--schedule", "balanced", "--machine", "ideal"])
            self.assertGreater(len(colours(self.browser.shot(f"ideal{workers}"))), 4 + min(workers, 8))

    def test_names_cannot_leave_their_place(self):
        [t] = self.page(["--workers", "2"])
        t["machine"] = "</script><script>window.broken = 1</script><b>\u2028\\"
        t["schedule"] = "\" onload=\"window.broken = 1"
        (self.folder / "bad.json").write_text(json.dumps(t))
        self.ringsched("render", "bad.json", "--output", "page.html")
        self.browser.open(self.folder / "page.html")
        self.assertIsNone(self.browser.ask("window.broken ?? null"))
        self.assertIn("</script><script>", self.browser.ask("document.getElementById('title').textContent"))

    def test_a_timeline_without_details_is_drawn_too(self):
        [t] = self.page(["--machine", "dgx-a100"])
        t["columns"] = t["columns"][:9]
        t["tasks"] = [row[:9] for row in t["tasks"]]
        for key in ("causes", "critical_path", "initial_bytes"):
            del t[key]
        (self.folder / "bare.json").write_text(json.dumps(t))
        self.ringsched("render", "bare.json", "--output", "page.html")
        self.browser.open(self.folder / "page.html")
        at = self.browser.ask("ringsched.where(0)")
        self.browser.mouse("mouseMoved", at)
        self.assertEqual(self.browser.state()["hovered"], 0)
        self.browser.click(at)
        self.assertEqual(self.browser.state()["related"], [0])

    def test_a_hundred_thousand_tasks(self):
        [t] = self.page(["--workers", "224", "--schedule", "balanced", "--machine", "ideal"])
        self.assertGreater(len(t["tasks"]), 100_000)
        at, times = {"x": 600, "y": 400}, []
        for k in range(20):
            self.browser.call("Input.dispatchMouseEvent", type="mouseWheel", **at, deltaX=0, deltaY=-120 if k < 10 else 120)
            times.append(self.browser.ask(
                "new Promise(done => requestAnimationFrame(a => requestAnimationFrame(b => done(b - a))))"))
        self.browser.shot("many")
        print(f"{len(t['tasks'])} tasks: {statistics.median(times):.0f} ms between frames while zooming", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
