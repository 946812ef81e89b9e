// Rows with named columns, from CSV or from a JSON list of objects: what `sweep`, `validate` or
// other programs write.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringsched {

struct Records {
  std::string name;  // of the file, for messages
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells as columns; JSON's null is empty

  std::optional<std::size_t> find(std::string_view column) const;
  // Throws Error naming the existing columns.
  std::size_t column(std::string_view) const;
  // Throws Error naming the row unless the cell is a finite number, or empty where that is allowed.
  std::optional<double> number(std::size_t row, std::size_t column) const;
};

// The cells of a line of CSV. Inside quotes, commas are text, and two quotes stand for one.
std::vector<std::string> csv_cells(std::string_view line);

// Throw Error, in one line that starts with `name`, for any other text.
Records read_csv_records(std::string_view text, const std::string& name);
Records read_json_records(const std::string& text, const std::string& name);

}  // namespace ringsched
