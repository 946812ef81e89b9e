#include "support/paths.hpp"

namespace ringsched {

std::filesystem::path source_folder() { return RINGSCHED_SOURCE_DIR; }
std::filesystem::path program_path() { return RINGSCHED_PROGRAM; }

}  // namespace ringsched
