#include "ringsched/runtime/tensor_form.hpp"

namespace ringsched {

TensorForm tensor_form(const Program& program, ValueId v, Tokens rows, std::uint32_t columns) {
  const Value& value = program[v];
  TensorForm form;
  form.rows = rows.value;
  std::size_t matrix = 0;
  for (const Part& part : type_of(value.type).parts)
    form.row_bytes[matrix++] = std::int64_t{columns} *
                               (part.scalar ? 1 : std::int64_t{value.columns.width}) *
                               element_bytes(part.element, program.dtype);
  return form;
}

TensorForm tensor_form(const Program& program, ValueId v, Tokens rows) {
  return tensor_form(program, v, rows, program[v].columns.count);
}

std::int64_t rows_before(const Layout& layout, Region part, Region whole) {
  return layout.rows({whole.first, part.first.value - whole.first.value}).value;
}

}  // namespace ringsched
