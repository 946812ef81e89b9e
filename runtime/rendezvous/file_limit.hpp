// How many files this process may have open at once: connections are files, so many processes need
// many.
#pragma once

#include <cstddef>
#include <string>

namespace ringsched {

// How many unauthenticated connections a port serves at once, in addition to the expected ones;
// fewer if files are short.
inline constexpr std::size_t kMostStrangers = 64;

// Makes sure that this process may open `needed` more files and some for other purposes. Returns
// how many unauthenticated connections a port may serve on top of that. Raises the soft limit for
// it, up to the hard one. Throws RunFailed, which names `what` and the limit.
std::size_t room_for_strangers(std::size_t needed, const std::string& what);

// "Too many open files (this process may have 256: ulimit -n)", or the text of another errno.
std::string why_no_file(int error);
bool is_file_limit(int error);

}  // namespace ringsched
