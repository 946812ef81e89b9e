#include "rendezvous/file_limit.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ringsched/runtime/control.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kOtherFiles = 16;  // modules, results, names of hosts

rlimit limits() {
  rlimit both{};
  ::getrlimit(RLIMIT_NOFILE, &both);
  return both;
}

std::size_t open_files() {
  std::error_code wrong;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", wrong), end; !wrong && it != end;
       it.increment(wrong))
    ++count;
  if (wrong)
    throw RunFailed(fmt::format("cannot count open files: {}", why_no_file(wrong.value())));
  return count;
}

}  // namespace

bool is_file_limit(int error) { return error == EMFILE || error == ENFILE; }

std::string why_no_file(int error) {
  return error != EMFILE ? std::strerror(error)
                         : fmt::format("{} (this process may have {}: ulimit -n)",
                                       std::strerror(error), limits().rlim_cur);
}

std::size_t room_for_strangers(std::size_t needed, const std::string& what) {
  const std::size_t least = open_files() + needed + kOtherFiles;
  rlimit both = limits();
  if (both.rlim_cur < least + kMostStrangers && both.rlim_cur < both.rlim_max) {
    both.rlim_cur = std::min<rlim_t>(least + kMostStrangers, both.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &both);
    both = limits();
  }
  if (both.rlim_cur < least)
    throw RunFailed(
        fmt::format("{} takes {} open files, and this process may have {}; raise the limit "
                    "(ulimit -n)",
                    what, least, both.rlim_cur));
  return std::min<std::size_t>(kMostStrangers, both.rlim_cur - least);
}

}  // namespace ringsched
