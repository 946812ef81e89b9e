// What the writers of traces share: text and times as JSON, and tracks on which slices nest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// In quotes. What is not UTF-8 becomes U+FFFD, so that the whole is always JSON.
std::string json_text(std::string_view);

// Picoseconds as microseconds, without rounding: 1234567 is "1.234567".
void append_microseconds(std::string&, std::int64_t ps);

// What a trace says about the whole run, as the first fields of an object.
std::string trace_heading(const Timeline&);

// As in a Gantt chart, but an attend says so: "attend q3 k1", "merge o3".
std::string trace_name(const Timeline&, std::uint32_t task);
// The reserved colour of chrome://tracing that comes nearest to the one in a Gantt chart.
std::string_view viewer_colour(const Timeline&, std::uint32_t task);

// Task numbers by start, then by number.
std::vector<std::uint32_t> tasks_of_worker(const Timeline&, std::uint32_t worker);
std::vector<std::vector<std::uint32_t>> tasks_by_worker(const Timeline&);

// Slices on one track of a viewer must nest. So a lane has a track for computing, one for what
// comes in and one for what goes out, and more of them if tasks overlap in time: "fetch in", "fetch
// in 2". The first of a kind has the same number at every worker. There is no 0, which is special
// to some viewers.
struct Track {
  std::uint32_t number;
  std::string name;
};
struct Tracks {
  std::vector<std::uint32_t> of;  // by place in the list of tasks: the number of its track
  std::vector<Track> all;         // as they are to be shown
};
// Of one worker's tasks, by start. Tasks without duration are put on the first track of their kind.
Tracks tracks_of(const Timeline&, std::span<const std::uint32_t> tasks);

// A quantity that changes: what it is from each instant on. No two instants are equal.
struct CounterStep {
  std::int64_t at_ps;
  std::int64_t value;
};

// Bytes alive on a worker: docs/traces.md says when a tensor is. Empty if the timeline does not
// say.
std::vector<std::vector<CounterStep>> memory_counters(const Timeline&);

// Bytes per second into and out of each worker: each message at its average rate from when both
// ends are posted.
struct RateCounters {
  std::vector<std::vector<CounterStep>> in, out;
};
RateCounters rate_counters(const Timeline&);

}  // namespace ringsched
