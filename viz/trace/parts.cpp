#include "parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>

#include "gantt/internal.hpp"

namespace ringsched {

namespace {

// The length of the UTF-8 sequence at the start of this text, 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, halves of surrogate pairs, and anything above U+10FFFF.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
      (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f))
    return 0;
  return length;
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\\ufffd";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + '"';
}

void append_microseconds(std::string& text, std::int64_t ps) {
  fmt::format_to(std::back_inserter(text), "{}.{:06}", ps / 1'000'000, ps % 1'000'000);
}

std::string trace_heading(const Timeline& t) {
  const Problem& p = t.problem;
  std::string out = fmt::format(
      "\"source\": \"{}\",\n\"program\": {},\n\"schedule\": {},\n\"machine\": {},\n"
      "\"plan_hash\": {},\n"
      "\"problem\": {{\"workers\": {}, \"tokens\": {}, \"heads\": {}, \"kv_heads\": {}, "
      "\"head_dim\": {}, \"dtype\": \"{}\", \"mask\": {}, \"pass\": \"{}\"}},\n"
      "\"makespan_us\": ",
      to_text(t.source), json_text(t.program), json_text(t.schedule), json_text(t.machine),
      json_text(t.plan_hash), p.workers, p.tokens.value, p.heads, p.kv_heads, p.head_dim,
      to_text(p.dtype), json_text(to_text(p.mask)), to_text(p.pass));
  append_microseconds(out, t.makespan().value);
  if (!t.incomplete.empty()) out += ",\n\"incomplete\": " + json_text(t.incomplete);
  return out + ",\n";
}

std::string trace_name(const Timeline& t, std::uint32_t task) {
  return (is_attend(t.tasks[task].kind) ? "attend " : "") + short_name(t, task);
}

namespace {

void sort_by_start(const Timeline& t, std::vector<std::uint32_t>& tasks) {
  std::stable_sort(tasks.begin(), tasks.end(), [&](std::uint32_t a, std::uint32_t b) {
    return t.tasks[a].start_ps < t.tasks[b].start_ps;
  });
}

}  // namespace

std::vector<std::uint32_t> tasks_of_worker(const Timeline& t, std::uint32_t worker) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < t.tasks.size(); ++i)
    if (t.tasks[i].worker == worker) out.push_back(i);
  sort_by_start(t, out);
  return out;
}

std::vector<std::vector<std::uint32_t>> tasks_by_worker(const Timeline& t) {
  std::vector<std::vector<std::uint32_t>> out(t.problem.workers);
  for (std::uint32_t i = 0; i < t.tasks.size(); ++i) out[t.tasks[i].worker].push_back(i);
  for (auto& tasks : out) sort_by_start(t, tasks);
  return out;
}

namespace {

constexpr std::size_t kDirections = 3;
constexpr std::string_view kDirectionNames[kDirections] = {"", " in", " out"};

std::size_t row_of(const TimelineTask& t) {
  const std::size_t direction = is_receive(t.kind) ? 1 : is_send(t.kind) ? 2 : 0;
  return static_cast<std::size_t>(t.lane) * kDirections + direction;
}

// The tracks of one lane and direction: each task goes to the first free one.
class Row {
 public:
  std::uint32_t place(std::int64_t start, std::int64_t end) {
    used_ = std::max(used_, 1u);
    if (end <= start) return 0;
    while (!busy_.empty() && busy_.top().first <= start) {
      free_.push(busy_.top().second);
      busy_.pop();
    }
    std::uint32_t track = opened_;
    if (free_.empty()) {
      used_ = std::max(used_, ++opened_);
    } else {
      track = free_.top();
      free_.pop();
    }
    busy_.push({end, track});
    return track;
  }
  std::uint32_t used() const { return used_; }

 private:
  template <class T>
  using LeastFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;
  LeastFirst<std::pair<std::int64_t, std::uint32_t>> busy_;  // until when, and which
  LeastFirst<std::uint32_t> free_;
  std::uint32_t opened_ = 0, used_ = 0;
};

}  // namespace

Tracks tracks_of(const Timeline& t, std::span<const std::uint32_t> tasks) {
  const auto kinds = static_cast<std::uint32_t>(t.lanes.size() * kDirections);
  std::vector<Row> rows(kinds);
  Tracks out;
  for (const std::uint32_t i : tasks) {
    const TimelineTask& x = t.tasks[i];
    out.of.push_back(rows[row_of(x)].place(x.start_ps, x.end_ps));
  }
  std::vector<std::uint32_t> more(kinds);  // the number of the second of a kind
  std::uint32_t next = kinds + 1;
  for (std::uint32_t r = 0; r < kinds; ++r) {
    more[r] = next;
    const std::string name =
        t.lanes[r / kDirections] + std::string(kDirectionNames[r % kDirections]);
    if (rows[r].used() > 0) out.all.push_back({r + 1, name});
    for (std::uint32_t n = 2; n <= rows[r].used(); ++n)
      out.all.push_back({next++, fmt::format("{} {}", name, n)});
  }
  for (std::size_t at = 0; at < tasks.size(); ++at) {
    const auto r = static_cast<std::uint32_t>(row_of(t.tasks[tasks[at]]));
    out.of[at] = out.of[at] == 0 ? r + 1 : more[r] + out.of[at] - 1;
  }
  return out;
}

}  // namespace ringsched
