// The Trace Event Format, as ui.perfetto.dev and chrome://tracing read it. docs/traces.md says what
// is in it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "parts.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "ringsched/viz/trace.hpp"

namespace ringsched {

namespace {

class ChromeTrace {
 public:
  explicit ChromeTrace(const Timeline& t) : t_(t), track_(t.tasks.size()) {}

  std::string text() {
    if (t_.tasks.empty()) fail("the timeline has no tasks: nothing to draw");
    const auto tasks = tasks_by_worker(t_);
    text_.reserve(t_.tasks.size() * 320);
    text_ = "{\n" + trace_heading(t_) + "\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [";
    for (std::uint32_t w = 0; w < t_.problem.workers; ++w) name_tracks(w, tasks[w]);
    for (std::uint32_t i = 0; i < t_.tasks.size(); ++i) slice(i);
    critical_path();
    arrows();
    counters("memory", "bytes", memory_counters(t_),
             [this](std::int64_t bytes) { put("{}", bytes); });
    const RateCounters rates = rate_counters(t_);
    const auto gb = [this](std::int64_t bytes) {
      put("{}.{:09}", bytes / 1'000'000'000, bytes % 1'000'000'000);
    };
    counters("GB/s in", "GB/s", rates.in, gb);
    counters("GB/s out", "GB/s", rates.out, gb);
    text_ += "\n]\n}\n";
    return std::move(text_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void next_event() {
    text_ += before_;
    before_ = ",\n";
  }
  void time(const char* key, std::int64_t ps) {
    put(",\"{}\":", key);
    append_microseconds(text_, ps);
  }
  void event(const char* phase, std::uint32_t worker, std::uint32_t track, std::int64_t at_ps) {
    next_event();
    put("{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", phase, worker, track);
    time("ts", at_ps);
  }

  void name_tracks(std::uint32_t worker, std::span<const std::uint32_t> tasks) {
    const Tracks tracks = tracks_of(t_, tasks);
    for (std::size_t at = 0; at < tasks.size(); ++at) track_[tasks[at]] = tracks.of[at];
    metadata("process_name", worker, 0);
    put("\"name\":\"worker {}\"}}}}", worker);
    metadata("process_sort_index", worker, 0);
    put("\"sort_index\":{}}}}}", worker);
    std::uint32_t place = 0;
    for (const Track& track : tracks.all) {
      metadata("thread_name", worker, track.number);
      put("\"name\":{}}}}}", json_text(track.name));
      metadata("thread_sort_index", worker, track.number);
      put("\"sort_index\":{}}}}}", ++place);
    }
  }
  void metadata(const char* name, std::uint32_t worker, std::uint32_t track) {
    next_event();
    put("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{", worker, track, name);
  }

  void slice(std::uint32_t i) {
    const TimelineTask& x = t_.tasks[i];
    const bool lasts = x.end_ps > x.start_ps;
    const auto& unfinished = t_.unfinished;
    if (!lasts && std::binary_search(unfinished.begin(), unfinished.end(), TaskId{i}))
      return;  // it had not begun
    event(lasts ? "X" : "i", x.worker, track_[i], x.start_ps);
    if (lasts) {
      time("dur", x.end_ps - x.start_ps);
    } else {
      text_ += ",\"s\":\"t\"";
    }
    put(",\"cat\":\"{}\",\"name\":\"{}\"", to_text(x.kind), trace_name(t_, i));
    put(",\"cname\":\"{}\",\"args\":{{\"task\":{},\"step\":{}", viewer_colour(t_, i), i, x.step);
    if (is_attend(x.kind)) {
      if (!t_.problem.decodes()) put(",\"queries\":{}", x.queries);
      put(",\"keys\":{}", x.other);
    } else if (const TimelineExchange* e = t_.exchange(i)) {
      put(",\"tensor\":\"{}\",\"form\":\"{}\",\"members\":{}", t_.value(x).name, to_text(e->form),
          e->members);
    } else {
      put(",\"{}\":{}", t_.value(x).name, x.queries);
      if (is_transfer(x.kind)) put(",\"peer\":{}", x.other);
    }
    if (!t_.details.empty()) detail(x.kind, t_.details[i]);
    text_ += "}}";
  }
  void detail(TaskKind kind, const TaskDetail& d) {
    if (is_attend(kind)) put(",\"pairs\":{}", d.pairs.value);
    if (!is_output(kind)) put(",\"bytes\":{}", d.bytes.value);
    put(",\"cause\":\"{}\"", to_text(d.cause));
    if (d.because.valid()) put(",\"because\":{}", d.because.value);
  }

  // A process of its own, above the workers.
  void critical_path() {
    const std::uint32_t process = t_.problem.workers;
    bool named = false;
    for (const CriticalStep& step : t_.critical_path) {
      if (step.end <= step.start) continue;
      if (!std::exchange(named, true)) {
        metadata("process_name", process, 0);
        put("\"name\":\"critical path\"}}}}");
        metadata("process_sort_index", process, 0);
        put("\"sort_index\":-1}}}}");
        metadata("thread_name", process, 1);
        put("\"name\":\"critical path\"}}}}");
        metadata("thread_sort_index", process, 1);
        put("\"sort_index\":1}}}}");
      }
      const std::uint32_t i = step.task.value;
      event("X", process, 1, step.start.value);
      time("dur", (step.end - step.start).value);
      put(",\"cat\":\"critical path\",\"name\":\"worker {}: {}\",\"cname\":\"{}\","
          "\"args\":{{\"task\":{},\"step\":{}}}}}",
          t_.tasks[i].worker, trace_name(t_, i), viewer_colour(t_, i), i, t_.tasks[i].step);
    }
  }

  // From where a send starts to where its receive has both ends posted: inside both slices, and
  // after them in the file, because viewers look for a slice that they have already read.
  void arrows() {
    if (t_.details.empty()) return;
    const std::vector<std::int64_t> from = moving_from(t_);
    for (std::uint32_t i = 0; i < t_.tasks.size(); ++i) {
      const TaskId id = t_.details[i].needs[0];
      if (!is_receive(t_.tasks[i].kind) || !id.valid()) continue;
      const TimelineTask &receive = t_.tasks[i], &send = t_.tasks[id.value];
      if (receive.end_ps <= receive.start_ps || send.end_ps <= send.start_ps) continue;
      const std::int64_t middle = receive.start_ps + (receive.end_ps - receive.start_ps) / 2;
      event("s", send.worker, track_[id.value], send.start_ps);
      put(",\"id\":{},\"cat\":\"message\",\"name\":\"message\"}}", i);
      event("f", receive.worker, track_[i], from[i] < receive.end_ps ? from[i] : middle);
      put(",\"id\":{},\"cat\":\"message\",\"name\":\"message\",\"bp\":\"e\"}}", i);
    }
  }

  template <class Value>
  void counters(const char* name, const char* unit,
                const std::vector<std::vector<CounterStep>>& workers, Value&& value) {
    for (std::uint32_t w = 0; w < workers.size(); ++w)
      for (const CounterStep& step : workers[w]) {
        next_event();
        put("{{\"ph\":\"C\",\"pid\":{},\"name\":\"{}\"", w, name);
        time("ts", step.at_ps);
        put(",\"args\":{{\"{}\":", unit);
        value(step.value);
        text_ += "}}";
      }
  }

  const Timeline& t_;
  std::vector<std::uint32_t> track_;  // by task
  std::string text_;
  const char* before_ = "\n";
};

}  // namespace

std::string chrome_trace(const Timeline& t) { return ChromeTrace(t).text(); }

}  // namespace ringsched
