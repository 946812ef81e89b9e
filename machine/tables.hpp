// The tables of a profile that may stand there several times, and what becomes of those of its
// base.
#pragma once

#include "toml_section.hpp"

namespace ringsched {

// A [[kernel]] stands for each of its dtypes in place of what the base has for the same library,
// pass, mask and head dimension; the others stay.
void read_kernels(Section&, Machine&, bool has_base);

// What a base has measured over links that this profile changes, is not true of it.
void drop_collectives(const toml::table& file, Machine&);

// A [[collective]] stands in place of that for the same exchange among as many.
void read_collectives(Section&, Machine&);

}  // namespace ringsched
