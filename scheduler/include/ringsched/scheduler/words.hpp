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
// What times count: the block model has no seconds, only the time of one full block.
enum class TimeUnit : std::uint8_t { Seconds, Blocks };
// One block in the simulator and in files: 1 us.
inline constexpr Picoseconds kBlock{1'000'000};

// "0 us", "12.3 us", "4.56 ms", "7.89 s"; "4.5 blocks", "1 block"
std::string duration(Picoseconds, TimeUnit = TimeUnit::Seconds);
std::string signed_duration(Picoseconds, TimeUnit = TimeUnit::Seconds);  // "+1.2 ms"
// "12.345678", to the picosecond, without trailing zeros: for JSON and CSV.
std::string microseconds(Picoseconds);
// 1234567 -> "1,234,567"
std::string grouped(std::int64_t);
// "1 task", "2 tasks"
std::string counted(std::int64_t, std::string_view noun);
// "4 new", or "4 new in each of 3 documents".
std::string new_tokens_text(const Problem&);
// "65,536 tokens, 32 heads (8 kv) x 128, bf16, causal, forward"
std::string described(const Problem&);

}  // namespace ringsched
