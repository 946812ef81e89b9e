#include "ringsched/scheduler/plan_tables.hpp"

namespace ringsched {

Work work_of(const Tile& t, std::uint32_t heads) {
  return {.rows = t.rows,
          .keys = t.keys,
          .pairs = t.pairs,
          .form = t.form,
          .columns = heads,
          .bytes = {}};
}

Work work_of(const Program& program, ValueId value, Tokens rows, std::uint32_t columns) {
  return {.rows = rows.value,
          .keys = 0,
          .pairs = {},
          .form = TileForm::Empty,
          .columns = columns,
          .bytes = program.bytes(value, rows, columns)};
}

void mark_complete(Plan& plan, TensorId t) {
  const TaskId maker = plan.producer(t);
  if (!maker.valid()) return;
  Task& task = plan.tasks[maker.value];
  const unsigned bit = t == plan.output(maker) ? 1 : 2;
  task.completes = static_cast<std::uint8_t>(task.completes | bit) & 3u;
}

}  // namespace ringsched
