// A table by columns: what plans, timelines and reports show of themselves. A column of numbers is
// memory of the table's object, which the table keeps alive, so an array of it is a view and copies
// nothing. Other columns belong to the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ringsched::python {

enum class Cells : std::uint8_t { Uint8, Uint16, Uint32, Int64, Float64, Text };

struct Column {
  std::string name;
  Cells cells = Cells::Text;
  const void* first = nullptr;  // the first number; the stride is in bytes
  std::size_t stride = 0;
  std::vector<std::string> words;  // of text: by row; of numbers that are codes: by code
  bool is_codes() const { return cells != Cells::Text && !words.empty(); }
};

class Table {
 public:
  // `keep`: the object whose memory the columns are.
  Table(std::string of, std::size_t rows, std::shared_ptr<const void> keep = {});

  template <class T>
  Table& view(std::string name, const T* first, std::size_t stride,
              std::vector<std::string> words = {}) {
    return add({std::move(name), cells_of<T>(), first, stride, std::move(words)});
  }
  template <class T>
  Table& numbers(std::string name, const std::vector<T>& values,
                 std::vector<std::string> words = {}) {
    const auto own = std::make_shared<std::vector<T>>(values);
    owned_.push_back(own);
    return view(std::move(name), own->data(), sizeof(T), std::move(words));
  }
  Table& text(std::string name, std::vector<std::string> words) {
    return add({std::move(name), Cells::Text, nullptr, 0, std::move(words)});
  }

  const std::string& of() const { return of_; }
  std::size_t rows() const { return rows_; }
  const std::vector<Column>& columns() const { return columns_; }
  const Column* find(std::string_view name) const;

 private:
  template <class T>
  static constexpr Cells cells_of() {
    if constexpr (std::is_same_v<T, double>) return Cells::Float64;
    if constexpr (std::is_same_v<T, std::int64_t>) return Cells::Int64;
    if constexpr (sizeof(T) == 1) return Cells::Uint8;
    if constexpr (sizeof(T) == 2) return Cells::Uint16;
    return Cells::Uint32;
  }
  Table& add(Column);

  std::string of_;  // "tasks", "links"
  std::size_t rows_;
  std::shared_ptr<const void> keep_;
  std::vector<std::shared_ptr<const void>> owned_;
  std::vector<Column> columns_;
};

std::size_t size_of(Cells);
std::string cell_text(const Column&, std::size_t row);
std::string table_text(const Table&, std::size_t most_rows);
std::string table_html(const Table&, std::size_t most_rows);
std::string escaped_html(std::string_view);

}  // namespace ringsched::python
