// The tables of a profile that may occur several times, and how they replace those of its base.
#pragma once

#include "toml_section.hpp"

namespace ringsched {

// A [[kernel]] replaces, for each of its dtypes, what the base has for the same library, pass, mask
// and head dimension; the others stay.
void read_kernels(Section&, Machine&, bool has_base);

// Figures that a base measured over links that this profile changes no longer hold.
void drop_collectives(const toml::table& file, Machine&);

// A [[collective]] replaces that for the same exchange among as many.
void read_collectives(Section&, Machine&);

}  // namespace ringsched
