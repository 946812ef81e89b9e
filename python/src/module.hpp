// The parts of the module. Each file binds one subject.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace ringsched::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

void bind_table(nb::module_&);
void bind_picture(nb::module_&);
void bind_problem(nb::module_&);
void bind_plan(nb::module_&);
void bind_builder(nb::module_&);
void bind_machine(nb::module_&);
void bind_timeline(nb::module_&);
void bind_run(nb::module_&);
void bind_sweep(nb::module_&);

}  // namespace ringsched::python
