// The common beginning of tests of plan files: a problem, and files on one line.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

inline Problem problem(std::uint32_t workers, std::int64_t tokens,
                       const Mask& mask = Mask::causal(), Pass pass = Pass::Forward) {
  Problem p;
  p.workers = workers;
  p.tokens = Tokens{tokens};
  p.mask = mask;
  p.pass = pass;
  return p;
}

inline constexpr std::string_view kHead =
    R"({"format":"ringsched-plan","version":2,"problem":{"workers":2,"tokens":8,"heads":4,)"
    R"("kv_heads":2,"head_dim":16,"dtype":"bf16","mask":"causal","pass":"forward"},)";

inline std::string file_of(std::string_view tasks) {
  return fmt::format("{}\"tasks\":[{}]}}", kHead, tasks);
}
inline std::string file_with_layout(std::string_view layout) {
  return fmt::format("{}\"layout\":{},\"tasks\":[]}}", kHead, layout);
}

// The tasks of a ring of two.
inline constexpr std::string_view kRing = R"({"do":"attend","in":["Q0","KV0"]},
{"do":"attend","in":["Q1","KV1"]},
{"do":"send","in":["KV0"],"to":1,"step":1},
{"do":"receive","from":2},
{"do":"attend","in":["Q1",3]},
{"do":"merge","in":[1,4]})";

}  // namespace ringsched
