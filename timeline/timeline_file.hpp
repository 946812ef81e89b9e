// What writing and reading a timeline file agree on.
#pragma once

#include <cstddef>

namespace ringsched::timeline_file {

inline constexpr std::size_t kColumns = 9;  // always there; with details there are kAllColumns
inline constexpr std::size_t kAllColumns = 14;
inline constexpr const char* kColumnNames[kAllColumns] = {
    "kind",     "makes",       "worker", "lane",  "step",  "queries", "other",
    "start_ps", "duration_ps", "pairs",  "bytes", "cause", "because", "needs"};

}  // namespace ringsched::timeline_file
