// Where a text stops being JSON, in words. simdjson says only that it does; this slow second look,
// taken once that is known, says where.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ringsched {

struct JsonFault {
  std::size_t line = 1, column = 1;  // both from 1; the column counts bytes
  std::string what;
};

// None: nothing is wrong but perhaps the UTF-8.
std::optional<JsonFault> find_json_fault(std::string_view text, std::size_t max_depth);

}  // namespace ringsched
