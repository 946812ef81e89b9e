#pragma once

#include <string_view>
#include <vector>

namespace ringsched {

struct PublishedFile {
  std::string_view name, toml;
};
// validation/*.toml, which CMake compiles into the library.
std::vector<PublishedFile> published_files();

}  // namespace ringsched
