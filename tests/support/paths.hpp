// Where the tests find the program and the files they read. Only paths.cpp is compiled with these
// absolute paths, so that a compiler cache can share all other files between checkouts.
#pragma once

#include <filesystem>

namespace ringsched {

std::filesystem::path source_folder();  // the repository's root
std::filesystem::path program_path();   // the command `ringsched` of this build

}  // namespace ringsched
