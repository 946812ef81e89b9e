// What an input file holds, judged by its beginning, so that a command given the wrong kind of file
// can name it.
#pragma once

#include <string>
#include <string_view>

namespace ringsched {

enum class Content { Plan, Timeline, Sweep, Trace, Machine, Unknown };

Content content_of(std::string_view beginning);

// The first 64 KiB of a regular file; empty for streams and for what cannot be read.
std::string beginning_of(const std::string& path);

// Throws Error if the file is known to hold something other than `wanted`.
void expect_content(const std::string& path, Content wanted);

// Throws Error that names the file, what it holds and what to do with it, unless that is unknown.
void refuse_content(const std::string& path, Content held, std::string_view wanted);

}  // namespace ringsched
