// When each task of a plan ran: predicted by the simulator or measured by a runtime, in one form,
// so that one picture, one report and one comparison serve both. A timeline stands by itself: what
// a reader needs to know of each task is in it. The file format is described in
// docs/timeline-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/scheduler/storage.hpp"

namespace ringsched {

inline constexpr int kTimelineVersion = 1;

enum class TimelineSource : std::uint8_t { Predicted, Measured };

// A task and its time. A transfer starts when its worker has posted it and ends when its group is
// complete.
struct TimelineTask {
  TaskKind kind = TaskKind::Attend;
  TensorKind makes = TensorKind::Query;
  Lane lane = Lane::Compute;
  std::uint16_t worker = 0;
  std::uint16_t queries = 0;  // at home on this worker; otherwise the home of what is worked on
  std::uint16_t other = 0;    // attends: the home of the keys; transfers: the other end
  Step step = 0;
  std::int64_t start_ps = 0;
  std::int64_t end_ps = 0;

  friend bool operator==(const TimelineTask&, const TimelineTask&) = default;
};
static_assert(sizeof(TimelineTask) == 32);

struct Timeline {
  TimelineSource source = TimelineSource::Predicted;
  std::string program;  // what made it, with its version
  std::string machine;
  std::string schedule;
  std::string plan_hash;
  Problem problem;
  std::vector<TimelineTask, PageAllocator<TimelineTask>> tasks;  // by TaskId

  Picoseconds makespan() const;
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

// Sixteen digits that differ for plans that differ in what they do.
std::string plan_hash(const Plan&);

// The timeline of a plan with all times zero.
Timeline timeline_of(const Plan&, TimelineSource, std::string_view machine);

std::string_view to_text(TimelineSource);

std::string write_timeline(const Timeline&);
// Written aside and renamed. Throw Error.
void write_timeline_file(const Timeline&, const std::string& path);
Timeline read_timeline(std::string_view json, std::string_view name);
Timeline read_timeline_file(const std::string& path);  // "-" reads standard input

}  // namespace ringsched
