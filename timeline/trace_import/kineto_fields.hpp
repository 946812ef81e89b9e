// Fields of events of PyTorch's profiler. A malformed field counts as absent.
#pragma once

#include <cstdint>
#include <string_view>

#include "scheduler/files/plan_json.hpp"

namespace ringsched::trace_import {

namespace dom = simdjson::dom;

std::string_view text_of(dom::object, std::string_view field);  // "" if there is none
std::int64_t number_of(dom::object, std::string_view field, std::int64_t otherwise);
// Of an element, by any of the names that PyTorch has for dtypes; 0: not known.
std::int64_t element_bytes(std::string_view dtype);
// Of the first input, as `record_shapes` has it; -1: not known.
std::int64_t input_bytes(dom::object args);
// Where a call of attention has its queries, with keys and values behind them, and its flags.
struct AttendArguments {
  std::size_t query, causal, mask;
};
// Pairs of query and key that a call of attention takes, by its shapes; -1: not known, as there is
// a mask or no shapes were recorded.
std::int64_t attended_pairs(dom::object args, const AttendArguments&);
// An input of a call, as `record_shapes` has it; -1: not known. Calls that post messages have the
// peer third and the tag fourth.
std::int64_t call_argument(dom::object args, std::size_t place);

}  // namespace ringsched::trace_import
