"""A checker of plan files written from docs/plan-format.md alone, naively: it knows nothing of ringsched.
judged(text) gives the verdict on a file, and why. The rules have the page's numbers."""
import collections
import json

HOLDS, DOES_NOT_HOLD, REJECTED = 0, 1, 2
MOST = 2147483647
INPUTS = {"attend": ["query", "key_value"], "attend_backward": ["query", "prepared_gradient", "key_value"],
          "prepare": ["partial", "output_gradient"], "merge": ["partial", "partial"]}
RESULTS = ("partial", "query_gradient", "key_value_gradient")
ROUNDED = {kind: "rounded_" + kind for kind in RESULTS}
UNROUNDED = {rounded: kind for kind, rounded in ROUNDED.items()}
KINDS = ("query", "key_value", "output_gradient", "prepared_gradient") + RESULTS + tuple(UNROUNDED)
GIVEN = {"Q": "query", "KV": "key_value", "dO": "output_gradient", "O": "partial"}
ALL = {"do", "worker", "step", "rows", "heads", "lane", "after"}
FIELDS = {"attend": ALL | {"in", "keys", "pairs", "complete"},
          "attend_backward": ALL | {"in", "keys", "pairs", "complete"},
          "send": ALL | {"in", "to", "tensor", "with_previous", "bytes"},
          "receive": ALL | {"from", "tensor", "with_previous", "slot", "bytes", "complete"},
          "prepare": ALL | {"in", "complete"}, "merge": ALL | {"in", "complete"},
          "reduce": ALL | {"in", "complete"}, "output": ALL | {"in"}, "round": ALL | {"in", "complete"},
          "exchange": ALL | {"in", "tensor", "members", "bytes", "complete"},
          "repack": ALL | {"in", "tensor", "members", "bytes", "complete"}}
OF_MEMBERS = ("exchange", "repack")
NEW = {"lanes", "given", "heads", "complete", "dummy_heads"}  # since version 2
# What makes it: a task's number and which of its outputs; None: it is given.
Tensor = collections.namedtuple("Tensor", "kind worker region heads maker")


class Rejected(Exception):
    pass


def require(good, why):
    if not good:
        raise Rejected(why)


def whole(x, least, most):
    require(type(x) is int and least <= x <= most, f"{x!r} is not {least} to {most}")
    return x


def one_of(x, names):
    require(isinstance(x, str) and x in names, f"{x!r} is not in {names}")
    return x


def no_repeats(pairs):
    require(len({k for k, _ in pairs}) == len(pairs), "a field twice")
    return dict(pairs)


def only(given, fields, required=()):
    require(isinstance(given, dict), "no object")
    require(set(given) <= set(fields), f"unknown field in {list(given)}")
    require(set(required) <= set(given), f"missing field in {list(given)}")


def count(text, least):
    unit = {"k": 2**10, "m": 2**20, "g": 2**30}.get(text[-1:].lower())
    digits = text[:-1] if unit else text
    require(digits.isdecimal() and digits.isascii(), f"no count: {text}")
    return whole(int(digits) * (unit or 1), least, MOST)


def mask_of(text, tokens):
    """A function of query and key position."""
    require(isinstance(text, str), "no mask")
    if text == "full":
        return lambda i, j: True
    if text == "causal":
        return lambda i, j: j <= i
    name, _, rest = text.partition(":")
    near = tokens
    if name == "window" and ",documents:" in rest:
        window, rest = rest.split(",documents:", 1)
        name, near = "documents", count(window, 1)
    if name == "window":
        n = count(rest, 1)
        return lambda i, j: j <= i and i - j < n
    if name == "prefix":
        require(",window:" in rest, "no window")
        p, n = (count(x, least) for x, least in zip(rest.split(",window:", 1), (0, 1)))
        return lambda i, j: j <= i and (j < p or i - j < n)
    require(name == "documents", f"mask {text}")
    document = [d for d, length in enumerate(rest.split(",")) for _ in range(count(length, 1))]
    require(len(document) == tokens, "documents of another length")
    return lambda i, j: j <= i and document[i] == document[j] and i - j < near


def cut(positions, parts):
    size, larger = divmod(len(positions), parts)
    out = []
    for i in range(parts):
        n = size + (i < larger)
        out.append(positions[:n])
        positions = positions[n:]
    return out


def layout_of(layout, workers, tokens, old):
    """All chunks, each a list of positions, and by worker the first of its chunks and their number."""
    if isinstance(layout, dict):
        return listed_layout(layout, workers, tokens, old)
    shares = named_layout(layout, workers, tokens)
    each = len(shares[0])
    return sum(shares, []), [(w * each, each) for w in range(workers)]


def named_layout(layout, workers, tokens):
    """A list of chunks for each worker."""
    every = list(range(tokens))
    if layout == "contiguous":
        return [[part] for part in cut(every, workers)]
    if layout == "striped":
        return [[every[r::workers]] for r in range(workers)]
    if layout == "zigzag":
        parts = cut(every, 2 * workers)
        return [[parts[r], parts[2 * workers - 1 - r]] for r in range(workers)]
    if layout == "halves":
        return [cut(part, 2) for part in cut(every, workers)]
    raise Rejected("no layout")


def listed_layout(layout, workers, tokens, old):
    only(layout, {"chunks"}, {"chunks"})
    require(isinstance(layout["chunks"], list), "chunks")
    chunks, owners = [], []
    for chunk in layout["chunks"]:
        only(chunk, {"worker", "start", "count", "stride"}, {"worker", "start", "count"})
        worker = whole(chunk["worker"], 0, workers - 1)
        owners.append(worker)
        start, n = whole(chunk["start"], 0, tokens - 1), whole(chunk["count"], 1, tokens)
        stride = whole(chunk.get("stride", 1), 1, tokens)
        require(start + (n - 1) * stride < tokens, "past the last token")
        chunks.append([start + i * stride for i in range(n)])
    require(sorted(sum(chunks, [])) == list(range(tokens)), "not every token once")
    require(len(set(owners)) == workers, "a worker without a chunk")
    home = [(owners.index(w), owners.count(w)) for w in range(workers)]
    require(all(set(owners[first:first + n]) == {w} for w, (first, n) in enumerate(home)), "not together")
    require(not old or owners == sorted(owners), "not worker by worker")
    return chunks, home


class Plan:
    def __init__(self, text):
        try:
            root = json.loads(text, object_pairs_hook=no_repeats, parse_constant=lambda x: require(False, x))
        except ValueError as e:
            raise Rejected(str(e)) from e
        only(root, {"format", "version", "schedule", "problem", "layout", "lanes", "given", "tasks",
                    "add_outputs", "dummy_heads"}, {"format", "version", "problem", "tasks"})
        require(root["format"] == "ringsched-plan", "format")
        self.old = whole(root["version"], 1, 2) == 1
        require(not self.old or not NEW & set(root), "new in version 2")
        schedule = root.get("schedule", "")
        require(isinstance(schedule, str) and len(schedule.encode()) <= 1000, "schedule")
        require(all(c >= " " and c != "\x7f" for c in schedule), "schedule")
        self.read_problem(root["problem"])
        if "dummy_heads" in root:
            self.read_dummy_heads(root["dummy_heads"])
        self.chunks, self.home = self.read_layout(root.get("layout", "decode" if self.new else "contiguous"))
        self.pairs = {}
        self.read_lanes(root.get("lanes", ["compute", "fetch", "return"]))
        self.read_given(root["given"] if "given" in root else self.usual_given())
        require(isinstance(root["tasks"], list), "tasks")
        self.count = len(root["tasks"])
        self.tasks, self.step, self.exchanges, self.repacks = [], 0, [], []
        for given in root["tasks"]:
            self.read_task(given)
        add = root.get("add_outputs", True)
        require(isinstance(add, bool), "add_outputs")
        if add and all(t["do"] != "output" for t in self.tasks):
            self.add_outputs()
        self.mark_complete()

    def read_layout(self, layout):
        if layout == "decode":
            require(not self.old, "layout of version 2")
            chunks, home = self.decode_layout()
        else:
            chunks, home = layout_of(layout, self.workers, self.tokens, self.old)
        self.news = None
        if self.new:
            for c in chunks:
                require(len({(self.doc_of[i], self.is_new[i]) for i in c}) <= 1, "chunk of two documents or kinds")
            news = [n for n, c in enumerate(chunks) if c and self.is_new[c[0]]]
            require(news == list(range(news[0], news[0] + len(news))), "new not together")
            self.news = (news[0], len(news))
        return chunks, home

    def decode_layout(self):
        W = self.workers
        shares = [[] for _ in range(W)]
        at = cached = 0
        tail = []
        for n in self.docs:
            C = n - self.new
            i = 0
            for j, part in enumerate(cut(list(range(at, at + C)), W)):
                if part:
                    shares[(cached + j) % W].append(part)
            cached += C
            if self.new:
                tail.append(list(range(at + C, at + n)))
            at += n
        shares[W - 1] += tail
        require(all(shares), "a worker without a chunk")
        home, first = [], 0
        for s in shares:
            home.append((first, len(s)))
            first += len(s)
        return sum(shares, []), home

    def read_lanes(self, lanes):
        require(isinstance(lanes, list) and lanes[:3] == ["compute", "fetch", "return"] and len(lanes) <= 8, "lanes")
        for name in lanes:
            require(isinstance(name, str) and 1 <= len(name.encode()) <= 40, "lanes")
            require(all(c >= " " and c != "\x7f" for c in name), "lanes")
        require(len(set(lanes)) == len(lanes), "two lanes of one name")
        self.lanes = lanes

    def read_problem(self, p):
        names = ("workers", "tokens", "heads", "kv_heads", "head_dim", "dtype", "mask", "pass")
        only(p, names if self.old else (*names, "new_tokens"), names)
        self.workers, self.tokens = whole(p["workers"], 1, 65535), whole(p["tokens"], 1, MOST)
        require(self.tokens >= self.workers, "fewer tokens than workers")
        self.heads, self.kv_heads = whole(p["heads"], 1, 16384), whole(p["kv_heads"], 1, 16384)
        require(self.heads % self.kv_heads == 0, "heads")
        self.head_dim = whole(p["head_dim"], 1, 4096)
        self.element = 4 if one_of(p["dtype"], ("bf16", "fp16", "fp32")) == "fp32" else 2
        self.turn = one_of(p["pass"], ("forward", "backward", "both"))
        self.sees = mask_of(p["mask"], self.tokens)
        self.new = whole(p.get("new_tokens", 0), 0, MOST)
        _, packed, lengths = p["mask"].rpartition("documents:")
        self.docs = [count(x, 1) for x in lengths.split(",")] if packed else [self.tokens]
        require(self.new <= min(self.docs), "new_tokens")
        require(not self.new or self.turn == "forward", "decoding backward")
        self.doc_of = [d for d, n in enumerate(self.docs) for _ in range(n)]
        self.is_new = [i >= n - self.new for n in self.docs for i in range(n)]

    def read_dummy_heads(self, dummies):
        require(isinstance(dummies, list) and len(dummies) == 2, "dummy_heads")
        heads, kv_heads = whole(dummies[0], 0, self.heads - 1), whole(dummies[1], 0, self.kv_heads - 1)
        require((self.heads - heads) % (self.kv_heads - kv_heads) == 0, "heads without dummies")

    def names(self):
        return {"forward": ("Q", "KV"), "both": ("Q", "KV", "dO"), "backward": tuple(GIVEN)}[self.turn]

    def usual_given(self):
        return [{"tensor": GIVEN[name], "worker": w} for name in self.names() for w in range(self.workers)]

    def read_given(self, given):
        require(isinstance(given, list), "given")
        self.given = []
        for g in given:
            only(g, {"tensor", "worker", "rows", "heads"}, {"tensor", "worker"})
            kind = one_of(g["tensor"], [GIVEN[name] for name in self.names()])
            w = whole(g["worker"], 0, self.workers - 1)
            region = self.region(g["rows"]) if "rows" in g else self.usual_region(kind, w)
            heads = self.some_heads(g["heads"], kind) if "heads" in g else (0, self.all_heads(kind))
            self.given.append(Tensor(kind, w, region, heads, None))

    def usual_region(self, kind, w):
        return self.news if self.new and kind == "query" else self.home[w]

    def all_heads(self, kind):
        return self.kv_heads if "key_value" in kind else self.heads

    def some_heads(self, given, kind):
        return some_of(given, self.all_heads(kind))

    def read_by(self, heads):
        """The key/value heads that these query heads read."""
        group = self.heads // self.kv_heads
        first, last = heads[0] // group, (sum(heads) - 1) // group
        return first, last - first + 1

    def visible(self, q, k):  # pairs of two chunks
        if (q, k) not in self.pairs:
            self.pairs[q, k] = sum(self.sees(i, j) for i in self.chunks[q] for j in self.chunks[k])
        return self.pairs[q, k]

    def bytes(self, kind, region, heads):
        cells = sum(len(self.chunks[c]) for c in span(region)) * heads[1]
        d, e = self.head_dim, self.element
        return cells * {"query": d * e, "output_gradient": d * e, "key_value": 2 * d * e, "partial": 4 * (d + 1),
                        "prepared_gradient": d * e + 8, "query_gradient": 4 * d, "key_value_gradient": 8 * d,
                        "rounded_partial": d * e, "rounded_query_gradient": d * e,
                        "rounded_key_value_gradient": 2 * d * e}[kind]

    def tensor(self, ref):
        if isinstance(ref, str):
            name, dot, index = ref.partition(".")
            require(not dot or (is_number(index) and index != "0"), f"no tensor {ref}")
            if is_number(name) and index == "1":
                t = self.earlier(int(name))
                require(self.tasks[t]["do"] == "attend_backward", "no second output")
                return self.outputs(t)[1]
            for letters, kind in GIVEN.items():
                if name.startswith(letters) and is_number(name[len(letters):]):
                    require(letters in self.names(), f"{ref} in pass {self.turn}")
                    w = whole(int(name[len(letters):]), 0, self.workers - 1)
                    there = [x for x in self.given if (x.kind, x.worker) == (kind, w)]
                    require(int(index or 0) < len(there), f"no tensor {ref}")
                    return there[int(index or 0)]
            raise Rejected(f"no tensor {ref}")
        made = self.outputs(self.earlier(ref))
        require(made and made[0].region[1], "makes nothing")
        return made[0]

    def outputs(self, n):
        t = self.tasks[n]
        if t["do"] in ("send", "output"):
            return []
        made = [Tensor(t["makes"], t["worker"], t["rows"], t["heads"], (n, 0))]
        if t["do"] == "attend_backward":
            made.append(Tensor("key_value_gradient", t["worker"], t["keys"], self.read_by(t["heads"]), (n, 1)))
        return made

    def earlier(self, n):
        return whole(n, 0, len(self.tasks) - 1)

    def region(self, given):
        return some_of(given, len(self.chunks))

    def read_task(self, g):
        require(isinstance(g, dict) and isinstance(g.get("do"), str) and g["do"] in FIELDS, "do")
        do = g["do"]
        only(g, FIELDS[do], {"from"} if do == "receive" else {"in", "rows"} if do in OF_MEMBERS else {"in"})
        require(not self.old or not (NEW & set(g) or do in OF_MEMBERS + ("round",) or g.get("tensor") in UNROUNDED),
                "new in version 2")
        self.read_members(g, do)
        t = {"do": do, "in": [], "with_previous": g.get("with_previous", False), "peer": None}
        require(isinstance(t["with_previous"], bool), "with_previous")
        require(isinstance(g.get("in", []), list), "in")
        t["in"] = [self.tensor(ref) for ref in g.get("in", [])]
        require(do not in OF_MEMBERS or len(t["in"]) == 1 or {"worker", "tensor"} <= set(g) and not t["in"], "inputs")
        self.check_kinds(do, [x.kind for x in t["in"]])
        send = None
        if do == "receive" and g["from"] is not None:
            t["peer"] = self.earlier(g["from"])
            send = self.tasks[t["peer"]]
            require(send["do"] == "send" and send["peer"] is None, "from no send, or one received already")
            send["peer"] = len(self.tasks)
        if do == "receive" and send is None:
            require({"worker", "tensor", "rows"} <= set(g), "from null")
        t["to"] = whole(g["to"], 0, self.workers - 1) if "to" in g else None
        usual = t["in"][0].worker if t["in"] else send["to"] if send else None
        require("worker" in g or usual is not None, "no worker")
        t["worker"] = whole(g["worker"], 0, self.workers - 1) if "worker" in g else usual
        require(send is None or send["to"] in (None, t["worker"]), "another worker than the send says")
        t["makes"] = {"attend": "partial", "merge": "partial", "attend_backward": "query_gradient",
                      "prepare": "prepared_gradient"}.get(do)
        if do == "round":
            t["makes"] = ROUNDED[t["in"][0].kind]
        if t["makes"] is None:
            t["makes"] = t["in"][0].kind if t["in"] else send and send["makes"]
        if "tensor" in g:
            kind = one_of(g["tensor"], KINDS)
            require(do == "receive" or not t["in"] or kind == t["makes"], "tensor")
            t["makes"] = kind
        t["rows"] = self.usual_rows(do, t, send) if "rows" not in g else \
            (0, 0) if do in OF_MEMBERS and g["rows"] == [] else self.region(g["rows"])
        t["heads"] = self.some_heads(g["heads"], t["makes"]) if "heads" in g else self.usual_heads(t, send)
        t["complete"] = self.read_complete(g, do)
        if do in ("attend", "attend_backward"):
            t["keys"] = self.region(g["keys"]) if "keys" in g else t["in"][-1].region
            pairs = sum(self.visible(q, k) for q in span(t["rows"]) for k in span(t["keys"]))
            require(g.get("pairs", pairs) == pairs and type(g.get("pairs", pairs)) is int, "pairs")
        if do in ("send", "receive") + OF_MEMBERS:
            size = self.bytes(t["makes"], t["rows"], t["heads"])
            require(g.get("bytes", size) == size and type(g.get("bytes", size)) is int, "bytes")
        self.step = t["step"] = whole(g.get("step", self.step), 0, MOST)
        moves = do in ("send", "receive", "exchange")
        usual = "compute" if not moves else "return" if t["makes"] in RESULTS + tuple(UNROUNDED) else "fetch"
        t["lane"] = one_of(g.get("lane", usual), self.lanes)
        require(isinstance(g.get("after", []), list), "after")
        t["after"] = [self.earlier(n) for n in g.get("after", [])]
        t["slot"] = whole(g["slot"], 0, self.count - 1) if "slot" in g else None
        self.tasks.append(t)

    def read_members(self, g, do):
        n = len(self.tasks)
        for kind, groups in (("exchange", self.exchanges), ("repack", self.repacks)):
            if groups and n in groups[-1]:
                return require(do == kind and "members" not in g, "among the members of another")
        if do in OF_MEMBERS:
            require("members" in g, "no members")
            groups = self.exchanges if do == "exchange" else self.repacks
            groups.append(range(n, n + whole(g["members"], 1, self.count - n)))

    def check_kinds(self, do, kinds):
        if do == "receive" or do in OF_MEMBERS:
            return
        one = ("send", "output", "round")
        require(len(kinds) == (3 if do == "attend_backward" else 1 if do in one else 2), "inputs")
        if do in INPUTS:
            require(kinds == INPUTS[do], f"{do} of {kinds}")
        if do == "reduce":
            require(kinds[0] == kinds[1] and kinds[0] in RESULTS[1:], f"reduce of {kinds}")
        if do == "output":
            require(kinds[0] in RESULTS or kinds[0] in UNROUNDED, f"output of {kinds}")
        if do == "round":
            require(kinds[0] in RESULTS, f"round of {kinds}")

    def usual_rows(self, do, t, send):
        if do == "receive":
            return send["rows"]
        if do in ("merge", "reduce"):
            return hull(t["in"][0].region, t["in"][1].region)
        return t["in"][1 if do == "prepare" else 0].region

    def usual_heads(self, t, send):
        if t["in"]:
            return t["in"][0].heads
        return send["heads"] if send and send["makes"] == t["makes"] else (0, self.all_heads(t["makes"]))

    def read_complete(self, g, do):
        if "complete" not in g:
            return None
        said = g["complete"] if do == "attend_backward" else [g["complete"]]
        require(isinstance(said, list) and len(said) == (2 if do == "attend_backward" else 1), "complete")
        require(all(isinstance(x, bool) for x in said), "complete")
        return said

    def mark_complete(self):
        put_out = {t["in"][0].maker for t in self.tasks if t["do"] == "output"}
        self.complete = {None}  # what makes complete tensors
        for x in self.made():
            t = self.tasks[x.maker[0]]
            nothing = t["do"] == "repack" and not t["rows"][1]
            usual = x.kind not in RESULTS or t["do"] == "exchange" or nothing or x.maker in put_out
            if t["complete"][x.maker[1]] if t["complete"] else usual:
                self.complete.add(x.maker)

    def made(self):
        return [x for n in range(len(self.tasks)) for x in self.outputs(n)]

    def add_outputs(self):
        read = {x.maker for t in self.tasks if t["do"] in ("send", "exchange", "repack", "merge", "reduce", "round")
                for x in t["in"]}
        wanted = RESULTS[1:] if self.turn == "backward" else RESULTS
        new = [x for x in self.made() if UNROUNDED.get(x.kind, x.kind) in wanted and x.maker not in read
               and x.region[1] and inside(x.region, self.usual_region("query", x.worker))]
        for x in sorted(new, key=lambda x: (KINDS.index(x.kind), x.worker)):
            self.tasks.append({"do": "output", "in": [x], "with_previous": False, "peer": None, "worker": x.worker,
                               "makes": x.kind, "rows": x.region, "heads": x.heads, "lane": "compute", "after": [],
                               "slot": None})


def is_number(text):
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")


def some_of(given, n):
    """The [first, count] of a file, of n things."""
    require(isinstance(given, list) and len(given) == 2, "no [first, count]")
    first = whole(given[0], 0, n - 1)
    return first, whole(given[1], 1, n - first)


def span(region):
    return range(region[0], region[0] + region[1])


def hull(a, b):
    first = min(a[0], b[0])
    return first, max(sum(a), sum(b)) - first


def inside(part, whole_region):
    return whole_region[0] <= part[0] and sum(part) <= sum(whole_region)


def broken_rule(p):
    """The number of a rule that the plan breaks, or None."""
    tasks = p.tasks
    anywhere = ("query", "key_value") if p.turn == "backward" else ()
    if not all(x.kind in anywhere or inside(x.region, p.usual_region(x.kind, x.worker)) for x in p.given):
        return 6
    lanes = collections.defaultdict(list)
    for n, t in enumerate(tasks):
        lanes[t["worker"], t["lane"]].append(n)
    for n, t in enumerate(tasks):
        if any(x.worker != t["worker"] for x in t["in"]):
            return 1
        if t["do"] in ("send", "receive"):
            if t["peer"] is None:
                return 2
            other = tasks[t["peer"]]
            if other["worker"] == t["worker"] or any(other[x] != t[x] for x in ("makes", "rows", "heads")):
                return 2
        elif t["do"] != "exchange" and t["lane"] != "compute":
            return 4
        if any(tasks[b]["worker"] != t["worker"] for b in t["after"]):
            return 5
        if rule := broken_region(p, t):
            return rule
        if t["with_previous"]:
            lane = lanes[t["worker"], t["lane"]]
            at = lane.index(n)
            if at == 0 or tasks[lane[at - 1]]["do"] not in ("send", "receive"):
                return 20
    return broken_exchange(p) or broken_use(p) or broken_completeness(p) or broken_coverage(p) or broken_order(p, lanes)


def broken_region(p, t):
    do, rows, heads = t["do"], t["rows"], t["heads"]
    if do == "output" and not inside(rows, p.usual_region("query", t["worker"])):
        return 3
    if do in ("attend", "attend_backward"):
        *of_queries, keys = t["in"]
        if not all(inside(rows, x.region) and inside(heads, x.heads) for x in of_queries):
            return 7
        if not inside(t["keys"], keys.region) or not inside(p.read_by(heads), keys.heads):
            return 7
        if p.turn == ("forward" if do == "attend_backward" else "backward"):
            return 12
    if do in ("output", "round") and p.turn == ("backward" if "partial" in t["in"][0].kind else "forward"):
        return 12
    if do == "prepare":
        partial, gradient = t["in"]
        if not inside(rows, gradient.region) or any(p.chunks[c] and c not in span(partial.region) for c in span(rows)):
            return 8
        if not inside(heads, partial.heads) or not inside(heads, gradient.heads):
            return 8
    if do in ("merge", "reduce"):
        a, b = t["in"]
        if rows != hull(a.region, b.region) or not heads == a.heads == b.heads:
            return 9
    if do == "send":
        x = t["in"][0]
        if not inside(rows, x.region) or not inside(heads, x.heads):
            return 10
        if x.maker not in p.complete and (rows, heads) != (x.region, x.heads):
            return 10
    if do == "output" and (rows, heads) != (t["in"][0].region, t["in"][0].heads):
        return 11
    if do == "round" and not (inside(heads, t["in"][0].heads) and
                              all(c in span(t["in"][0].region) or not p.chunks[c] for c in span(rows))):
        return 11
    return None


def cells(region, heads):
    return {(c, h) for c in span(region) for h in span(heads)}


def broken_exchange(p):
    for exchange in p.exchanges + p.repacks:
        members = [p.tasks[n] for n in exchange]
        repack = members[0]["do"] == "repack"
        if len({t["worker"] for t in members}) != (1 if repack else len(members)):
            return 23
        if len({(t["makes"], t["lane"], t["step"]) for t in members}) > 1:
            return 23
        given = [x for t in members for x in t["in"]]
        if not given or any(not t["in"] and not t["rows"][1] for t in members):
            return 24
        if len({x.maker in p.complete for x in given}) > 1:
            return 25
        if given[0].maker in p.complete:
            there = set()
            for x in given:
                new = cells(x.region, x.heads)
                if there & new:
                    return 25
                there |= new
            if any(not cells(t["rows"], t["heads"]) <= there for t in members):
                return 25
        if repack and any(x.maker and x.maker[0] in exchange for x in given):
            return 23
        may_be_parts = repack and given[0].maker not in p.complete
        if any((n, 0) not in p.complete and not (may_be_parts and p.tasks[n]["rows"][1]) for n in exchange):
            return 26
    return None


def broken_use(p):
    readers = collections.Counter()
    outputs = collections.Counter()
    for t in p.tasks:
        if t["do"] in ("merge", "reduce"):
            if any(x.maker in p.complete for x in t["in"]):
                return 14
        if t["do"] in ("merge", "reduce", "send", "exchange", "repack"):
            readers.update(x.maker for x in t["in"])
        if t["do"] == "output":
            kind = UNROUNDED.get(t["makes"], t["makes"])
            outputs.update((kind, c, h, t["worker"] if p.new else 0) for c in span(t["rows"]) for h in span(t["heads"]))
    if any(x.maker not in p.complete and readers[x.maker] != 1 for x in p.made() if x.kind in RESULTS):
        return 13
    if any(n > 1 for n in outputs.values()):
        return 15
    outputs = {x[:3] for x in outputs}
    chunks = range(len(p.chunks))
    for q in chunks:
        for k in chunks:
            if p.visible(q, k) and (not p.new or p.is_new[p.chunks[q][0]]):
                for kind, chunk in zip(RESULTS, (q, q, k)):
                    heads = p.kv_heads if kind == "key_value_gradient" else p.heads
                    if p.turn != ("backward" if kind == "partial" else "forward"):
                        if any((kind, chunk, h) not in outputs for h in range(heads)):
                            return 17
    return None


def broken_completeness(p):
    for t in p.tasks:
        if t["do"] in ("attend", "attend_backward", "prepare", "output", "round"):
            if any(x.maker not in p.complete for x in t["in"]):
                return 16
        if t["do"] == "send" and t["in"][0].maker in p.complete and (t["peer"], 0) not in p.complete:
            return 18
    return None


def broken_coverage(p):
    reader = {x.maker: n for n, t in enumerate(p.tasks)
              if t["do"] in ("merge", "reduce", "send", "exchange", "repack") for x in t["in"]}
    exchange_of = {n: e for e in p.exchanges for n in e}
    repack_of = {n: r for r in p.repacks for n in r}

    # From the tensor that `maker` made on to all that it goes to; a repack takes some pairs each way.
    def follow(maker, pairs):
        if maker in p.complete:
            return met[maker].update(pairs)
        n = reader[maker]
        n = p.tasks[n]["peer"] if p.tasks[n]["do"] == "send" else n
        if n not in repack_of:
            return follow(((exchange_of[n][0] if n in exchange_of else n), 0), pairs)
        for m in repack_of[n]:
            follow_into(m, pairs)

    def follow_into(member, pairs):
        t = p.tasks[member]
        there = cells(t["rows"], t["heads"])
        of_keys = t["makes"] == "key_value_gradient"
        some = [(q, k, h) for q, k, h in pairs if ((k, p.read_by((h, 1))[0]) if of_keys else (q, h)) in there]
        if t["rows"][1]:
            follow((member, 0), some)

    def adds(exchange):
        return any(x.maker not in p.complete for n in exchange for x in p.tasks[n]["in"])

    met = collections.defaultdict(collections.Counter)
    for n, t in enumerate(p.tasks):
        if "keys" in t:
            pairs = [(q, k, h) for q in span(t["rows"]) for k in span(t["keys"]) for h in span(t["heads"])]
            for x in p.outputs(n):
                follow(x.maker, pairs)
    chunks = range(len(p.chunks))
    for x in p.made():
        t = p.tasks[x.maker[0]]
        is_copy = t["do"] == "receive" and p.tasks[t["peer"]]["in"][0].maker in p.complete
        sum_of = x.maker
        if t["do"] == "exchange":
            exchange = exchange_of[x.maker[0]]
            is_copy, sum_of = not adds(exchange), (exchange[0], 0)
        if t["do"] == "repack":
            is_copy = not adds(repack_of[x.maker[0]])
        if x.kind not in RESULTS or x.maker not in p.complete or is_copy:
            continue
        of_keys = x.kind == "key_value_gradient"
        heads = [h for h in range(p.heads) if inside(p.read_by((h, 1)) if of_keys else (h, 1), x.heads)]
        for chunk in span(x.region):
            for other in chunks:
                q, k = (other, chunk) if of_keys else (chunk, other)
                if p.visible(q, k) and any(met[sum_of][q, k, h] != 1 for h in heads):
                    return 19
    return None


# By event: all events that come before it; None if some never happen.
def what_happened_before(waits):
    happened, left = {}, dict(waits)
    while left:
        now = [e for e, w in left.items() if all(x in happened for x in w)]
        if not now:
            return None
        for e in now:
            happened[e] = set().union(*({x} | happened[x] for x in left.pop(e)))
    return happened


def broken_order(p, lanes):
    group_of, groups, before = {}, [], []
    for lane in lanes.values():
        last = None
        for n in lane:
            if not (p.tasks[n]["with_previous"] or any(n in r[1:] for r in p.repacks)):
                groups.append([])
                before.append(last)
                last = len(groups) - 1
            groups[-1].append(n)
            group_of[n] = len(groups) - 1
    # The events that each event waits for: (group, "posted") and (group, "ended").
    waits, late = {}, False
    for g, members in enumerate(groups):
        posted = set() if before[g] is None else {(before[g], "ended")}
        ended = {(g, "posted")}
        for n in members:
            t = p.tasks[n]
            posted |= {(group_of[x.maker[0]], "ended") for x in t["in"] if x.maker}
            posted |= {(group_of[b], "ended") for b in t["after"]}
            needed = [x.maker[0] for x in t["in"] if x.maker] + list(t["after"])
            if any(groups[group_of[m]][-1] > members[-1] for m in needed):
                late = True
            if t["peer"] is not None:
                ended.add((group_of[t["peer"]], "posted"))
            for e in p.exchanges:
                ended |= {(group_of[m], "posted") for m in e if n in e}
        waits[g, "posted"], waits[g, "ended"] = posted, ended
    if what_happened_before(waits) is None:
        return 21
    if late:
        return 20
    # Where a plan runs, a member of an exchange waits only for those that give it something.
    for e in p.exchanges:
        for n in e:
            gives = {m for m in e for x in p.tasks[m]["in"]
                     if cells(x.region, x.heads) & cells(p.tasks[n]["rows"], p.tasks[n]["heads"])}
            waits[group_of[n], "ended"] -= {(group_of[m], "posted") for m in set(e) - gives - {n}}
    happened = what_happened_before(waits)
    occupant = {}
    for n, t in enumerate(p.tasks):
        if t["slot"] is None:
            continue
        place = t["worker"], t["makes"], t["slot"]
        if place in occupant:
            readers = [r for r, x in enumerate(p.tasks) if (occupant[place], 0) in [y.maker for y in x["in"]]]
            for r in readers or [occupant[place]]:
                if (group_of[r], "ended") not in happened[group_of[n], "posted"]:
                    return 22
        occupant[place] = n
    return None


def judged(text):
    try:
        rule = broken_rule(Plan(text))
    except Rejected as e:
        return REJECTED, str(e)
    return (HOLDS, "") if rule is None else (DOES_NOT_HOLD, f"rule {rule}")
