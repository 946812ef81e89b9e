#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/problem.hpp"
#include "terminal.hpp"

namespace ringsched {

namespace {

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a UTF-8 continuation byte
  }));
}

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kLeastWords = 24;  // columns, below which wrapping does not read well

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  return widths;
}

std::size_t width_of(const std::vector<std::size_t>& widths) {
  std::size_t sum = 0;
  for (const std::size_t w : widths) sum += w + 2;
  return sum - 2;
}

std::string aligned(const Rows& rows) {
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - width(row[c]), ' ');
      line += c == 0 ? padding + row[c] : "  " + row[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

bool has_words_last(const Rows& rows) {
  const std::size_t columns = widths_of(rows).size();
  return std::ranges::any_of(rows, [&](const auto& row) {
    return row.size() == columns && std::ranges::count(row.back(), ' ') >= 3;
  });
}

// Breaks the last column between words; each further line becomes a row.
Rows wrapped(const Rows& rows, std::size_t columns) {
  const std::size_t last = widths_of(rows).size() - 1;
  Rows out;
  for (const auto& row : rows) {
    out.push_back(row);
    while (row.size() > last && width(out.back()[last]) > columns) {
      std::string& text = out.back()[last];
      // A space within the width, counted in bytes: no more than there is room for.
      const std::size_t space = text.rfind(' ', columns);
      if (space == text.npos || space == 0) break;
      std::vector<std::string> rest(last + 1);
      rest[last] = text.substr(space + 1);
      text.erase(space);
      out.push_back(std::move(rest));
    }
  }
  return out;
}

Rows columns_of(const Rows& rows, std::size_t keys, std::size_t first, std::size_t end) {
  Rows out;
  for (const auto& row : rows) {
    std::vector<std::string>& part = out.emplace_back();
    for (std::size_t c = 0; c < std::min(row.size(), end); ++c)
      if (c < keys || c >= first) part.push_back(row[c]);
  }
  return out;
}

}  // namespace

std::vector<std::string> list_of(const std::string& text, const char* flag) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (;;) {
    const std::size_t comma = text.find(',', at);
    out.push_back(text.substr(at, comma - at));
    if (out.back().empty()) fail("{} is '{}': a value is missing beside a comma", flag, text);
    if (comma == std::string::npos) return out;
    at = comma + 1;
  }
}

std::int64_t number_of(const std::string& text, const char* flag, std::int64_t least,
                       std::int64_t most) {
  std::int64_t n = 0;
  try {
    n = parse_count(text, flag);
  } catch (const Error&) {
    fail("{} is '{}'; use a whole number from {} to {}", flag, printable(text), least, most);
  }
  if (n < least || n > most) fail("{} is {}; use {} to {}", flag, text, least, most);
  return n;
}

std::string in_lines(std::string_view text, std::size_t indent, std::size_t columns) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  std::string out, line(first, ' ');
  text.remove_prefix(first);
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    const bool begins = line.find_first_not_of(' ') == line.npos;
    if (!begins && width(line) + 1 + width(word) > columns) {
      out += line + "\n";
      line.assign(indent, ' ');
      line += word;
    } else {
      line += (begins ? "" : " ") + std::string(word);
    }
  }
  return out + line;
}

std::string on_terminal_lines(std::string_view text, std::size_t indent) {
  const std::size_t columns = terminal_columns();
  return columns == 0 ? std::string(text) : in_lines(text, indent, columns);
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n") == text.npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string value_words(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"query", "queries"},
      {"key_value", "keys and values"},
      {"partial", "partial results"},
      {"output_gradient", "output gradients"},
      {"prepared_gradient", "prepared gradients"},
      {"query_gradient", "query gradients"},
      {"key_value_gradient", "key and value gradients"}};
  constexpr std::string_view rounded = "rounded_";
  if (name.starts_with(rounded)) return "rounded " + value_words(name.substr(rounded.size()));
  const std::string_view base = name.substr(0, name.find('#'));
  for (const auto& [of, words] : known)
    if (of == base) return std::string(words);
  std::string out(base);
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::string table(const Rows& rows, std::size_t keys) {
  return table_within(rows, keys, terminal_columns());
}

std::string table_within(const Rows& rows, std::size_t keys, std::size_t columns) {
  const std::vector<std::size_t> widths = widths_of(rows);
  if (columns == 0 || widths.size() <= keys || width_of(widths) <= columns) return aligned(rows);
  const std::size_t others = width_of({widths.begin(), widths.end() - 1}) + 2;
  if (others + kLeastWords <= columns && has_words_last(rows))
    return aligned(wrapped(rows, columns - others));
  // As many columns as fit, at least one; then the others.
  std::string out;
  for (std::size_t next = keys; next < widths.size();) {
    std::size_t used = width_of({widths.begin(), widths.begin() + static_cast<long>(keys)});
    const std::size_t first = next;
    while (next < widths.size() && (next == first || used + 2 + widths[next] <= columns))
      used += 2 + widths[next++];
    out += (out.empty() ? "" : "\n") + aligned(columns_of(rows, keys, first, next));
  }
  return out;
}

std::string table_of_names(const Rows& rows, std::size_t columns) {
  if (columns == 0 || width_of(widths_of(rows)) <= columns) return aligned(rows);
  Rows below = rows;
  for (std::size_t r = 1; r < rows.size(); ++r) below[r][0].clear();
  const std::vector<std::size_t> widths = widths_of(below);
  std::string out;
  for (std::size_t next = 1; next < widths.size();) {
    std::size_t used = widths[0];
    const std::size_t first = next;
    while (next < widths.size() && (next == first || used + 2 + widths[next] <= columns))
      used += 2 + widths[next++];
    std::istringstream lines(aligned(columns_of(below, 1, first, next)));
    if (!out.empty()) out += "\n";
    std::string line;
    for (std::size_t r = 0; std::getline(lines, line); ++r) {
      if (r > 0) out += in_lines(rows[r][0], 2, columns) + "\n";
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace ringsched
