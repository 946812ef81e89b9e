#include "table.hpp"

#include <fmt/format.h>

#include <cstring>

#include "cli/text.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched::python {

namespace {

template <class T>
T number_at(const Column& c, std::size_t row) {
  T value;
  std::memcpy(&value, static_cast<const char*>(c.first) + row * c.stride, sizeof(T));
  return value;
}

// Which of the rows to show: the first and the last ones.
std::vector<std::size_t> shown(std::size_t rows, std::size_t most) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < rows; ++i)
    if (rows <= most || i < most / 2 || i >= rows - most / 2) list.push_back(i);
  return list;
}

}  // namespace

Table::Table(std::string of, std::size_t rows, std::shared_ptr<const void> keep)
    : of_(std::move(of)), rows_(rows), keep_(std::move(keep)) {}

Table& Table::add(Column c) {
  columns_.push_back(std::move(c));
  return *this;
}

const Column* Table::find(std::string_view name) const {
  for (const Column& c : columns_)
    if (c.name == name) return &c;
  return nullptr;
}

std::size_t size_of(Cells cells) {
  static constexpr std::size_t sizes[] = {1, 2, 4, 8, 8, 0};
  return sizes[static_cast<std::size_t>(cells)];
}

std::string cell_text(const Column& c, std::size_t row) {
  if (c.cells == Cells::Text) return c.words[row];
  if (c.cells == Cells::Float64) return fmt::format("{:.6g}", number_at<double>(c, row));
  const std::int64_t value = c.cells == Cells::Uint8    ? number_at<std::uint8_t>(c, row)
                             : c.cells == Cells::Uint16 ? number_at<std::uint16_t>(c, row)
                             : c.cells == Cells::Uint32 ? number_at<std::uint32_t>(c, row)
                                                        : number_at<std::int64_t>(c, row);
  if (c.is_codes()) return c.words[static_cast<std::size_t>(value)];
  if (c.cells == Cells::Uint32 && value == ~std::uint32_t{0}) return "-";
  return fmt::format("{}", value);
}

std::string table_text(const Table& t, std::size_t most_rows) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& c : t.columns()) lines[0].push_back(c.name);
  std::size_t next = 0;
  for (const std::size_t row : shown(t.rows(), most_rows)) {
    std::vector<std::string> line;
    if (row != next) lines.emplace_back(t.columns().size(), "...");
    for (const Column& c : t.columns()) line.push_back(cell_text(c, row));
    lines.push_back(std::move(line));
    next = row + 1;
  }
  return ringsched::table(lines) +
         fmt::format("{}: {}", t.of(), counted(static_cast<std::int64_t>(t.rows()), "row"));
}

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string table_html(const Table& t, std::size_t most_rows) {
  std::string out = "<table><thead><tr>";
  for (const Column& c : t.columns()) out += fmt::format("<th>{}</th>", escaped_html(c.name));
  out += "</tr></thead><tbody>";
  std::size_t next = 0;
  for (const std::size_t row : shown(t.rows(), most_rows)) {
    if (row != next) out += fmt::format("<tr><td colspan=\"{}\">...</td></tr>", t.columns().size());
    out += "<tr>";
    for (const Column& c : t.columns())
      out += fmt::format("<td>{}</td>", escaped_html(cell_text(c, row)));
    out += "</tr>";
    next = row + 1;
  }
  out += "</tbody></table>";
  if (t.rows() > most_rows)
    out += fmt::format("<p>{}: {}</p>", escaped_html(t.of()),
                       counted(static_cast<std::int64_t>(t.rows()), "row"));
  return out;
}

}  // namespace ringsched::python
