// How many files this process may have open at once: connections are files, and so many processes
// want many.
#pragma once

#include <cstddef>
#include <string>

namespace ringsched {

// How many strangers a port serves at once, beside those it waits for; fewer if files are short.
inline constexpr std::size_t kMostStrangers = 64;

// Makes sure that this process may open `needed` more files and some for other purposes, and
// returns how many strangers a port may serve on top of that. Raises the soft limit for it, as far
// as the hard one allows. Throws RunFailed, which names `what` and the limit.
std::size_t room_for_strangers(std::size_t needed, const std::string& what);

// "Too many open files (this process may have 256: ulimit -n)", or what else an errno means.
std::string why_no_file(int error);
bool is_file_limit(int error);

}  // namespace ringsched
