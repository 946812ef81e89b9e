// Reads traces from PyTorch's profiler: JSON in the form of Chrome traces, with Kineto's additions.
// If there are kernels, only they count, because what the host does then is to launch them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "kineto_fields.hpp"
#include "names.hpp"
#include "rank_trace.hpp"
#include "ringsched/scheduler/file.hpp"
#include "scheduler/files/plan_json.hpp"

namespace ringsched {

namespace {

using namespace plan_file;
using namespace trace_import;

constexpr std::uint64_t kMostTraceBytes = 0xffffffff - 64;
constexpr std::size_t kMostName = 100;
constexpr double kMostUs = 4e15;    // some time after the year 2096, since 1970
constexpr double kMostSpan = 2e11;  // of one trace: two days

struct Times {
  double start = 0, length = 0;  // us
};

class KinetoReader {
 public:
  KinetoReader(dom::object o, std::string_view file, const TraceNames& names)
      : where_{file}, names_(names) {
    trace_.name = file;
    dom::element list;
    if (o["traceEvents"].get(list) != simdjson::SUCCESS)
      where_.fail("no \"traceEvents\": this is not a trace of PyTorch's profiler");
    events_ = array({where_, "traceEvents", list});
    heading(o);
    look_over();
  }

  RankTrace trace() {
    std::int64_t number = 0;
    for (const dom::element e : events_) read(Where{where_.file, "event", number++}, e);
    add_calls();
    put_in_order(trace_);
    return std::move(trace_);
  }

 private:
  void heading(dom::object o) {
    dom::object part;
    if (o["distributedInfo"].get(part) == simdjson::SUCCESS) {
      trace_.rank = std::max<std::int64_t>(-1, number_of(part, "rank", -1));
      trace_.device = printable(text_of(part, "backend"), kMostName);
    }
    const std::int64_t base = number_of(o, "baseTimeNanoseconds", 0);
    trace_.origin_ns = std::clamp<std::int64_t>(base, 0, std::int64_t{1} << 61);
    trace_.host = printable(text_of(o, "host_name"), kMostName);
    dom::array devices;
    if (o["deviceProperties"].get(devices) == simdjson::SUCCESS)
      for (const dom::element e : devices)
        if (e.get(part) == simdjson::SUCCESS && !text_of(part, "name").empty())
          trace_.device = printable(text_of(part, "name"), kMostName);
  }

  // Complete events; nothing for markers, counters and names of threads.
  static bool is_slice(dom::element e, dom::object& slice) {
    return e.get(slice) == simdjson::SUCCESS && text_of(slice, "ph") == "X";
  }

  // Times count from the first event, so that all picoseconds have room.
  void look_over() {
    double first = std::numeric_limits<double>::infinity();
    std::int64_t number = 0;
    for (const dom::element e : events_) {
      const Where where{where_.file, "event", number++};
      dom::object slice;
      if (!is_slice(e, slice)) continue;
      const std::string_view category = text_of(slice, "cat"), name = text_of(slice, "name");
      kernels_ = kernels_ || category == "kernel";
      ours_ = ours_ || name == kOurAttend || name == kOurAttendBackward;
      if (is_of_interest(category)) first = std::min(first, times(where, slice).start);
    }
    if (first == std::numeric_limits<double>::infinity())
      where_.fail("no events that are kernels, operators or annotations: nothing was profiled");
    origin_ = std::floor(first);
    trace_.origin_ns += static_cast<std::int64_t>(origin_) * 1000;
  }

  static bool is_of_interest(std::string_view category) {
    return category == "kernel" || category == "cpu_op" || category == "user_annotation" ||
           category == "gpu_user_annotation";
  }

  static Times times(const Where& where, dom::object slice) {
    Times out;
    dom::element e;
    if (slice["ts"].get(e) != simdjson::SUCCESS) where.fail("\"ts\" is missing");
    if (e.get(out.start) != simdjson::SUCCESS || !(out.start >= 0 && out.start <= kMostUs))
      Found{where, "ts", e}.must_be("a number of microseconds");
    if (slice["dur"].get(e) != simdjson::SUCCESS) return out;
    if (e.get(out.length) != simdjson::SUCCESS || !(out.length >= 0 && out.length <= kMostSpan))
      Found{where, "dur", e}.must_be("a number of microseconds");
    return out;
  }

  std::optional<Named> meaning(std::string_view category, std::string_view name,
                               dom::object args) const {
    const bool annotation = category == "user_annotation" || category == "gpu_user_annotation";
    const bool on_device = category == "kernel" || category == "gpu_user_annotation";
    if (kernels_ && !on_device) return std::nullopt;
    std::optional<Named> known = category == "kernel"
                                     ? kernel_named(name, text_of(args, "Collective name"))
                                 : kernels_ ? std::nullopt
                                            : cpu_event_named(name);
    if (ours_ && !names_given()) {
      if (annotation && name == kOurAttend) return Named{TraceWork::Attend};
      if (annotation && name == kOurAttendBackward) return Named{TraceWork::AttendBackward};
    }
    const auto has = [&](const std::string& part) {
      return !part.empty() && name.find(part) != name.npos;
    };
    if (has(names_.attend_backward)) return Named{TraceWork::AttendBackward};
    if (has(names_.attend)) return Named{TraceWork::Attend};
    if (known && (names_given() || ours_) &&
        (known->work == TraceWork::Attend || known->work == TraceWork::AttendBackward))
      known->work = TraceWork::Compute;
    return known;
  }
  bool names_given() const { return !names_.attend.empty() || !names_.attend_backward.empty(); }

  void read(const Where& where, dom::element e) {
    dom::object slice;
    if (!is_slice(e, slice)) return;
    const std::string_view category = text_of(slice, "cat"), name = text_of(slice, "name");
    if (!is_of_interest(category)) return;
    dom::object args;
    if (slice["args"].get(args) != simdjson::SUCCESS) args = slice;  // which has no such fields
    const bool annotated = !names_.annotation.empty() && name == names_.annotation &&
                           category == (kernels_ ? "gpu_user_annotation" : "user_annotation");
    const bool posts = !kernels_ && (name == "c10d::send" || name == "c10d::recv_");
    const std::optional<Named> found = meaning(category, name, args);
    if (!annotated && !posts && !found) return;
    const Times t = times(where, slice);
    if (t.start - origin_ > kMostSpan) where.fail("it is over two days after the first event");
    TraceEvent out;
    out.start_ps = std::llround((t.start - origin_) * 1e6);
    out.end_ps = out.start_ps + std::llround(t.length * 1e6);
    out.stream = stream(category, slice, args);
    if (annotated) trace_.ranges.push_back(out);
    if (posts)
      posts_.push_back(
          {out.stream, out.start_ps, out.end_ps, call_argument(args, 2), call_argument(args, 3)});
    if (!found) return;
    out.work = found->work;
    out.form = found->form;
    message(category, args, out);
    if (category == "cpu_op") out.pairs = pairs(name, args);
    trace_.events.push_back(out);
  }

  static std::int64_t stream(std::string_view category, dom::object slice, dom::object args) {
    const std::int64_t thread = number_of(slice, "tid", 0);
    return category == "kernel" ? number_of(args, "stream", thread) : thread;
  }

  // The calls for CPUs alone: a kernel does not say which call started it, nor with what shapes.
  static std::int64_t pairs(std::string_view name, dom::object args) {
    constexpr std::pair<std::string_view, AttendArguments> calls[] = {
        {"aten::_scaled_dot_product_flash_attention_for_cpu", {0, 4, 5}},
        {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {1, 7, 8}},
        {"aten::_scaled_dot_product_attention_math", {0, 5, 3}}};
    for (const auto& [call, places] : calls)
      if (name == call) return attended_pairs(args, places);
    return -1;
  }

  static void message(std::string_view category, dom::object args, TraceEvent& e) {
    if (e.work != TraceWork::Send && e.work != TraceWork::Receive) return;
    const bool send = e.work == TraceWork::Send;
    if (category != "kernel") {
      e.bytes = input_bytes(args);
      return;
    }
    e.peer = std::max<std::int64_t>(-1, number_of(args, send ? "Dst Rank" : "Src Rank", -1));
    const std::int64_t count = number_of(args, send ? "In msg nelems" : "Out msg nelems", -1);
    const std::int64_t size = element_bytes(text_of(args, "dtype"));
    if (count > 0 && size > 0 && count < std::numeric_limits<std::int64_t>::max() / 64)
      e.bytes = count * size;
  }

  // The call that posted a message over gloo names the peer. It encloses the start of the message's
  // event, which is a moment after the message may have left.
  void add_calls() {
    std::ranges::sort(posts_, {}, [](const Post& p) { return std::pair(p.stream, p.start); });
    for (TraceEvent& e : trace_.events) {
      if (e.work != TraceWork::Send && e.work != TraceWork::Receive) continue;
      const auto after =
          std::ranges::upper_bound(posts_, std::pair(e.stream, e.start_ps), {},
                                   [](const Post& p) { return std::pair(p.stream, p.start); });
      if (after == posts_.begin()) continue;
      const Post& post = *std::prev(after);
      if (post.stream != e.stream || e.start_ps > post.end) continue;
      e.peer = post.peer;
      e.tag = post.tag;
      e.start_ps = post.start;
    }
  }

  struct Post {
    std::int64_t stream, start, end, peer, tag;
  };

  Where where_;
  const TraceNames& names_;
  dom::array events_;
  RankTrace trace_;
  std::vector<Post> posts_;
  double origin_ = 0;  // us
  bool kernels_ = false, ours_ = false;
};

RankTrace read_padded_trace(const std::string& buffer, std::string_view file,
                            const TraceNames& names) {
  dom::parser parser;
  return KinetoReader(parse(parser, buffer, file), file, names).trace();
}

}  // namespace

RankTrace read_kineto(std::string_view json, std::string_view name, const TraceNames& names) {
  return read_padded_trace(padded(json), name, names);
}

RankTrace read_kineto_file(const std::string& path, const TraceNames& names) {
  return read_padded_trace(read_json(path, kMostTraceBytes, simdjson::SIMDJSON_PADDING),
                           shown_path(path), names);
}

}  // namespace ringsched
