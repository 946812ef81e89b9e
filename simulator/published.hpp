#pragma once

#include <string_view>

namespace ringsched {

std::string_view published_toml();  // validation/published.toml, made part of the library by CMake

}  // namespace ringsched
