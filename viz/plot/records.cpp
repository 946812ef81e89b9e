#include "ringsched/viz/records.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostColumns = 1000;

void require_columns(const Records& r) {
  if (r.columns.size() > kMostColumns)
    fail("{}: {} columns are too many (limit {})", r.name, r.columns.size(), kMostColumns);
  for (std::size_t i = 0; i < r.columns.size(); ++i) {
    if (r.columns[i].empty()) fail("{}: column {} has no name", r.name, i + 1);
    if (std::find(r.columns.begin(), r.columns.begin() + static_cast<std::ptrdiff_t>(i),
                  r.columns[i]) != r.columns.begin() + static_cast<std::ptrdiff_t>(i))
      fail("{}: two columns are called {}", r.name, printable(r.columns[i], 40));
  }
  if (r.rows.empty()) fail("{} has no rows", r.name);
}

}  // namespace

std::optional<std::size_t> Records::find(std::string_view column) const {
  const auto at = std::find(columns.begin(), columns.end(), column);
  if (at == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(at - columns.begin());
}

std::size_t Records::column(std::string_view wanted) const {
  if (const auto at = find(wanted)) return *at;
  std::string names;
  for (const std::string& c : columns) names += (names.empty() ? "" : ", ") + printable(c, 40);
  fail("{} has no column {}; its columns are {}", name, wanted, names);
}

std::optional<double> Records::number(std::size_t row, std::size_t column) const {
  const std::string& text = rows[row][column];
  if (text.empty()) return std::nullopt;
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(x))
    fail("{}: row {}: {} is '{}', expected a number", name, row + 1, columns[column],
         printable(text, 40));
  return x;
}

std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        out.back() += '"';
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += line[i];
    }
  }
  return out;
}

Records read_csv_records(std::string_view text, const std::string& name) {
  Records r;
  r.name = name;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::size_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.empty()) continue;
    std::vector<std::string> cells = csv_cells(one);
    if (r.columns.empty()) {
      r.columns = std::move(cells);
      continue;
    }
    if (cells.size() != r.columns.size())
      fail("{}:{}: expected {} columns, found {}", name, line, r.columns.size(), cells.size());
    r.rows.push_back(std::move(cells));
  }
  if (r.columns.empty()) fail("{} is empty", name);
  require_columns(r);
  return r;
}

Records read_json_records(const std::string& text, const std::string& name) {
  using namespace simdjson;
  Records r;
  r.name = name;
  dom::parser parser;
  dom::element top;
  if (const error_code wrong = parser.parse(text).get(top); wrong != SUCCESS)
    fail("{} is not JSON: {}", name,
         wrong == TAPE_ERROR
             ? "it is cut off, or a comma, bracket or name is missing or superfluous"
             : error_message(wrong));
  dom::array list;
  if (top.get(list) != SUCCESS) fail("{}: expected a list of objects", name);
  for (const dom::element e : list) {
    dom::object o;
    if (e.get(o) != SUCCESS) fail("{}: expected a list of objects", name);
    std::vector<std::string> row(r.columns.size());
    for (const auto& [key, value] : o) {
      std::optional<std::size_t> at = r.find(key);
      if (!at && r.rows.empty()) {
        at = r.columns.size();
        r.columns.emplace_back(key);
        row.emplace_back();
      }
      if (!at)
        fail("{}: row {} has \"{}\", which the first row lacks", name, r.rows.size() + 1,
             printable(key, 40));
      if (value.is_array() || value.is_object())
        fail("{}: row {}: \"{}\" must be a number, a text or null", name, r.rows.size() + 1,
             printable(key, 40));
      std::string_view s;
      if (value.get(s) == SUCCESS)
        row[*at] = s;
      else if (!value.is_null())
        row[*at] = minify(value);
    }
    r.rows.push_back(std::move(row));
  }
  if (r.rows.empty()) fail("{} has no rows", name);
  require_columns(r);
  return r;
}

}  // namespace ringsched
