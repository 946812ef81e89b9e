// Numbers and problems as people read them, in tables, messages and pictures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ringsched/scheduler/problem.hpp"
#include "ringsched/scheduler/units.hpp"

namespace ringsched {

// "0 B", "768 B", "1.5 KiB", "33.6 MiB"
std::string human(Bytes);
// "0 us", "12.3 us", "4.56 ms", "7.89 s"
std::string duration(Picoseconds);
std::string signed_duration(Picoseconds);  // "+1.2 ms"
// "12.345678", to the picosecond, without trailing zeros: for JSON and CSV.
std::string microseconds(Picoseconds);
// 1234567 -> "1 234 567"
std::string grouped(std::int64_t);
// "1 task", "2 tasks"
std::string counted(std::int64_t, std::string_view noun);
// "65 536 tokens, 32 heads (8 kv) x 128, bf16, causal, forward"
std::string described(const Problem&);

}  // namespace ringsched
