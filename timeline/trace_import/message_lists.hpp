// Messages of the plan and of the traces that may correspond, in lists.
#pragma once

#include "matching.hpp"

namespace ringsched::trace_import {

// A message of the plan, or a group of them that one kernel carries.
struct WantedMessage {
  std::vector<TaskId> tasks;
  ExchangeForm form = ExchangeForm::Other;
  Lane lane = Lane::Fetch;
  std::int64_t to_rank = -1, from_rank = -1, bytes = -1;
  // The earliest start: what it sends is there. The latest end: an attend reads what came.
  std::int64_t earliest = std::numeric_limits<std::int64_t>::min(), latest = kNever;
};

// A message in the traces: both ends, if it is known which send belongs to which receive. A kernel
// for a batch and a member of a collective are both ends at once.
struct FoundMessage {
  const TraceEvent* sent = nullptr;
  const TraceEvent* got = nullptr;
  bool inside = false;  // between attends of the pass, so that it belongs to no other pass
};

struct MessageList {
  std::size_t worker = 0;
  TraceWork kind = TraceWork::Send;
  std::vector<WantedMessage> wanted;
  std::vector<FoundMessage> found;
  std::size_t traced = 0;  // how many such there are in all calls that the traces hold
};

// The k-th send from one worker to another is the k-th receive there from it. This is the strongest
// evidence. So messages are in lists by pairs of workers, if the traces name peers or the plan
// leaves no choice, and otherwise in lists by worker and direction. `call` must outlive the result.
std::vector<MessageList> message_lists(const Plan&, const std::vector<WorkerTasks>&,
                                       const TakenCall& call, std::span<const std::int64_t> ranks,
                                       const TaskTimes&);

}  // namespace ringsched::trace_import
