// A trace of one worker like those of PyTorch's profiler, as far as a timeline knows it: kernels on
// streams, and no host. HolisticTraceAnalysis recognizes communication kernels by their names
// (^nccl.*Kernel) and ranks by the first "rank": N with a space.
#include <fmt/format.h>

#include <iterator>

#include "parts.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/viz/trace.hpp"

namespace ringsched {

namespace {

// Times are multiples of 1/1024 us, about the profiler's nanosecond. Such numbers and their sums
// and differences are exact in binary. HTA needs that: it computes a rank's non-computing time as a
// difference, and stops if rounding makes it negative.
constexpr std::int64_t kTicks = 1024;

std::int64_t ticks(std::int64_t ps) {
  return ps / 1'000'000 * kTicks + (ps % 1'000'000 * kTicks + 500'000) / 1'000'000;
}

void append_ticks(std::string& text, std::int64_t n) {
  fmt::format_to(std::back_inserter(text), "{}.{:010}", n / kTicks, n % kTicks * 9'765'625);
  while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
}

// The name of a collective in NCCL and PyTorch.
struct NcclNames {
  std::string_view kernel, collective;
};
NcclNames names_of(ExchangeForm form) {
  switch (form) {
    case ExchangeForm::AllGather:
      return {"ncclDevKernel_AllGather_RING_LL", "_allgather_base"};
    case ExchangeForm::ReduceScatter:
      return {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "_reduce_scatter_base"};
    case ExchangeForm::AllReduce:
      return {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "allreduce"};
    case ExchangeForm::Broadcast:
      return {"ncclDevKernel_Broadcast_RING_LL", "broadcast"};
    case ExchangeForm::Reduce:
      return {"ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"};
    case ExchangeForm::Scatter:
      return {"ncclDevKernel_SendRecv", "scatter"};
    case ExchangeForm::Gather:
      return {"ncclDevKernel_SendRecv", "gather"};
    case ExchangeForm::AllToAll:
    case ExchangeForm::Other:
      break;
  }
  return {"ncclDevKernel_SendRecv", "all_to_allv"};
}

class KinetoTrace {
 public:
  KinetoTrace(const Timeline& t, std::uint32_t worker) : t_(t), worker_(worker) {}

  std::string text() {
    if (t_.tasks.empty()) fail("the timeline has no tasks: nothing to draw");
    if (worker_ >= t_.problem.workers)
      fail("no worker {}; the timeline has workers 0 to {}", worker_, t_.problem.workers - 1);
    const std::vector<std::uint32_t> tasks = tasks_of_worker(t_, worker_);
    const Tracks tracks = tracks_of(t_, tasks);
    put("{{\n\"schemaVersion\": 1,\n"
        "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}}},\n"
        "\"deviceProperties\": [{{\"id\": {}, \"name\": {}}}],\n",
        worker_, t_.problem.workers, worker_, json_text(t_.machine));
    text_ += trace_heading(t_);
    put("\"traceName\": {},\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": 0,\n"
        "\"traceEvents\": [\n",
        json_text(fmt::format("{} on {}, worker {}", t_.schedule, t_.machine, worker_)));
    name_streams(tracks);
    for (std::size_t at = 0; at < tasks.size(); ++at) kernel(tasks[at], tracks.of[at]);
    text_ += "\n]\n}\n";
    return std::move(text_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void name_streams(const Tracks& tracks) {
    put("{{\"ph\":\"M\",\"pid\":{},\"tid\":0,\"ts\":0.0,\"name\":\"process_name\","
        "\"args\":{{\"name\":\"worker {}\"}}}}",
        worker_, worker_);
    for (const Track& track : tracks.all)
      put(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"ts\":0.0,\"name\":\"thread_name\","
          "\"args\":{{\"name\":{}}}}}",
          worker_, track.number, json_text(fmt::format("stream {} {}", track.number, track.name)));
  }

  void kernel(std::uint32_t i, std::uint32_t stream) {
    const TimelineTask& x = t_.tasks[i];
    const std::int64_t start = ticks(x.start_ps), end = ticks(x.end_ps);
    if (end <= start) return;
    const bool transfer = is_transfer(x.kind);
    const TimelineExchange* const exchange = t_.exchange(i);
    put(",\n{{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":",
        exchange   ? names_of(exchange->form).kernel
        : transfer ? "ncclDevKernel_SendRecv"
                   : to_text(x.kind),
        worker_, stream);
    append_ticks(text_, start);
    text_ += ",\"dur\":";
    append_ticks(text_, end - start);
    put(",\"args\":{{\"device\":{},\"stream\":{},\"correlation\":{},\"External id\":{},"
        "\"task\":{},\"step\":{}",
        worker_, stream, i + 1, i + 1, i, x.step);
    if (is_attend(x.kind)) {
      if (!t_.problem.decodes()) put(",\"queries\":{}", x.queries);
      put(",\"keys\":{}", x.other);
    } else if (!exchange) {
      put(",\"{}\":{}", t_.value(x).name, x.queries);
    }
    if (transfer) message(i);
    if (exchange) collective(*exchange, i);
    text_ += "}}";
  }

  void message(std::uint32_t i) {
    const TimelineTask& x = t_.tasks[i];
    const bool send = is_send(x.kind);
    put(",\"Collective name\":\"{}\",\"Src Rank\":{},\"Dst Rank\":{},\"Group size\":{},"
        "\"Process Group Name\":\"0\",\"Process Group Description\":\"default_pg\"",
        send ? "send" : "recv", send ? worker_ : x.other, send ? x.other : worker_,
        t_.problem.workers);
    if (t_.details.empty()) return;
    const std::int64_t bytes = t_.details[i].bytes.value;
    put(",\"dtype\":\"Byte\",\"In msg nelems\":{},\"Out msg nelems\":{}", bytes, bytes);
  }

  void collective(const TimelineExchange& e, std::uint32_t i) {
    put(",\"tensor\":\"{}\",\"Collective name\":\"{}\",\"Group size\":{},"
        "\"Process Group Name\":\"0\",\"Process Group Description\":\"default_pg\"",
        t_.value(t_.tasks[i]).name, names_of(e.form).collective, e.members);
    if (!t_.details.empty())
      put(",\"dtype\":\"Byte\",\"Out msg nelems\":{}", t_.details[i].bytes.value);
  }

  const Timeline& t_;
  const std::uint32_t worker_;
  std::string text_;
};

}  // namespace

std::string kineto_trace(const Timeline& t, std::uint32_t worker) {
  return KinetoTrace(t, worker).text();
}

}  // namespace ringsched
