// Tables as a stream of the Arrow C data interface, which pandas, polars, DuckDB and pyarrow read:
// https://arrow.apache.org/docs/format/CStreamInterface.html
#pragma once

#include <cstdint>

#include "table.hpp"

struct ArrowArrayStream;

namespace ringsched::python {

// One batch with all rows, copied. The reader calls release().
ArrowArrayStream* new_arrow_stream(const Table&);
void free_arrow_stream(ArrowArrayStream*);

}  // namespace ringsched::python
