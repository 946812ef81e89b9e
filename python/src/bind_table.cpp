// Table: columns as arrays, rows as text and HTML, and all of it for pandas and polars.
#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include "arrow.hpp"
#include "module.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "table.hpp"

namespace ringsched::python {

namespace {

constexpr std::size_t kShownRows = 20;

const Column& column_of(const Table& t, const std::string& name) {
  if (const Column* c = t.find(name)) return *c;
  std::string names;
  for (const Column& c : t.columns()) names += (names.empty() ? "" : ", ") + c.name;
  throw nb::key_error(
      fmt::format("{} has no column '{}'; it has {}", t.of(), printable(name), names).c_str());
}

nb::dlpack::dtype type_of(Cells cells) {
  switch (cells) {
    case Cells::Uint8:
      return nb::dtype<std::uint8_t>();
    case Cells::Uint16:
      return nb::dtype<std::uint16_t>();
    case Cells::Uint32:
      return nb::dtype<std::uint32_t>();
    case Cells::Int64:
      return nb::dtype<std::int64_t>();
    default:
      return nb::dtype<double>();
  }
}

// numpy, or None where it is not installed.
nb::object module_or_none(const char* name) {
  try {
    return nb::module_::import_(name);
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_ImportError)) throw;
    return nb::none();
  }
}

nb::object need(const char* name, const char* what) {
  nb::object m = module_or_none(name);
  if (m.is_none()) fail("{} needs {}: pip install {}", what, name, name);
  return m;
}

// A view of a column of numbers, which keeps the table alive; a list of words.
nb::object array(nb::handle self, const Column& c, std::size_t rows) {
  if (c.cells == Cells::Text) return nb::cast(c.words);
  const std::size_t shape[] = {rows};
  const std::int64_t strides[] = {static_cast<std::int64_t>(c.stride / size_of(c.cells))};
  const nb::object view = nb::cast(
      nb::ndarray<nb::ro, nb::memview>(c.first, 1, shape, self, strides, type_of(c.cells)));
  const nb::object numpy = module_or_none("numpy");
  return numpy.is_none() ? view : nb::object(numpy.attr("asarray")(view));
}

nb::object to_pandas(nb::handle self) {
  const nb::object pandas = need("pandas", "to_pandas()");
  const Table& t = nb::cast<const Table&>(self);
  nb::dict columns;
  for (const Column& c : t.columns()) {
    nb::object values = array(self, c, t.rows());
    if (c.is_codes()) {
      nb::object copy = nb::module_::import_("numpy").attr("array")(values, "dtype"_a = "int32");
      values = pandas.attr("Categorical").attr("from_codes")(copy, nb::cast(c.words));
    }
    columns[c.name.c_str()] = values;
  }
  return pandas.attr("DataFrame")(columns);
}

nb::capsule arrow_stream(const Table& t) {
  return nb::steal<nb::capsule>(
      PyCapsule_New(new_arrow_stream(t), "arrow_array_stream", [](PyObject* capsule) {
        free_arrow_stream(
            static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule, "arrow_array_stream")));
      }));
}

nb::dict row_dict(const Table& t, std::size_t row) {
  nb::dict out;
  for (const Column& c : t.columns()) {
    if (c.cells == Cells::Text || c.is_codes()) {
      out[c.name.c_str()] = cell_text(c, row);
    } else if (c.cells == Cells::Float64) {
      double x;
      std::memcpy(&x, static_cast<const char*>(c.first) + row * c.stride, sizeof x);
      out[c.name.c_str()] = x;
    } else {
      const std::string text = cell_text(c, row);
      if (text == "-")
        out[c.name.c_str()] = nb::none();
      else
        out[c.name.c_str()] = static_cast<std::int64_t>(std::stoll(text));
    }
  }
  return out;
}

}  // namespace

void bind_table(nb::module_& m) {
  nb::class_<Table>(m, "Table",
                    "A table by columns. table[\"name\"] and table.name are arrays: views of the "
                    "memory of the plan or timeline, numpy arrays where numpy is installed and "
                    "memoryviews elsewhere; a column of text is a list. Columns with a fixed set "
                    "of values hold codes; words(name) has their words.")
      .def("__len__", &Table::rows)
      .def_prop_ro("columns",
                   [](const Table& t) {
                     std::vector<std::string> names;
                     for (const Column& c : t.columns()) names.push_back(c.name);
                     return names;
                   })
      .def("keys",
           [](const Table& t) {
             std::vector<std::string> names;
             for (const Column& c : t.columns()) names.push_back(c.name);
             return names;
           })
      .def(
          "__getitem__",
          [](nb::handle self, const std::string& name) {
            const Table& t = nb::cast<const Table&>(self);
            return array(self, column_of(t, name), t.rows());
          },
          nb::sig("def __getitem__(self, name: str) -> typing.Any"))
      .def(
          "__getattr__",
          [](nb::handle self, const std::string& name) {
            const Table& t = nb::cast<const Table&>(self);
            if (const Column* c = t.find(name)) return array(self, *c, t.rows());
            throw nb::attribute_error(
                fmt::format("{} has no column '{}'", t.of(), printable(name)).c_str());
          },
          nb::sig("def __getattr__(self, name: str) -> typing.Any"))
      .def(
          "words", [](const Table& t, const std::string& name) { return column_of(t, name).words; },
          "name"_a, "The words of a column of codes, by code; of a column of text, by row.")
      .def(
          "row",
          [](const Table& t, std::int64_t row) {
            const auto rows = static_cast<std::int64_t>(t.rows());
            if (row < -rows || row >= rows) throw nb::index_error("no such row");
            return row_dict(t, static_cast<std::size_t>(row < 0 ? row + rows : row));
          },
          "index"_a, "One row as a dict.")
      .def("to_pandas", &to_pandas, nb::sig("def to_pandas(self) -> typing.Any"),
           "A pandas DataFrame.")
      .def(
          "to_polars",
          [](nb::handle self) -> nb::object {
            return need("polars", "to_polars()").attr("DataFrame")(self);
          },
          nb::sig("def to_polars(self) -> typing.Any"), "A polars DataFrame.")
      .def(
          "__arrow_c_stream__", [](const Table& t, const nb::object&) { return arrow_stream(t); },
          "requested_schema"_a.none() = nb::none())
      .def("__repr__", [](const Table& t) { return table_text(t, kShownRows); })
      .def("_repr_html_", [](const Table& t) { return table_html(t, kShownRows); });
}

}  // namespace ringsched::python
