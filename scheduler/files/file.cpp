#include "ringsched/scheduler/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include "json_scan.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

// The end of all symbolic links, whether it exists or not.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int most = 40;  // as many as Linux follows
  std::error_code ignored;
  for (int followed = 0; std::filesystem::is_symlink(path, ignored); ++followed) {
    if (followed == most) fail("cannot write {}: {}", path.string(), std::strerror(ELOOP));
    path = path.parent_path() / std::filesystem::read_symlink(path, ignored);
  }
  return path;
}

// The unfinished files, for a signal handler, which may do very little.
constexpr std::size_t kMostUnfinished = 64;
std::array<std::atomic<const char*>, kMostUnfinished> unfinished;

void replace_unfinished(const char* old, const char* now) {
  for (auto& slot : unfinished) {
    const char* expected = old;
    if (slot.compare_exchange_strong(expected, now)) return;
  }
}
void note(const std::string& path) { replace_unfinished(nullptr, path.c_str()); }
void forget(const std::string& path) { replace_unfinished(path.c_str(), nullptr); }

// Names of what this process has open already: written to, never replaced.
bool is_open_already(const std::string& path) {
  return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

}  // namespace

void remove_unfinished_files() {
  for (auto& slot : unfinished)
    if (const char* path = slot.load()) ::unlink(path);
}

NewFile::NewFile(const std::string& path) : target_(path) {
  if (path.empty() || path == "-") fail("cannot write '{}': not a file name", path);
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) fail("cannot write {}: it is a directory", path);
  if (is_open_already(path) ||
      (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))) {
    file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  } else {
    // For a symbolic link, this replaces the file it names, not the link.
    target_ = behind_links(path).string();
    const auto folder = std::filesystem::path(target_).parent_path();
    // A file without a name disappears with the process, even on kill -9. It gets a name through
    // /proc.
    if (::access("/proc/self/fd", X_OK) == 0)
      file_ = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    has_no_name_ = file_ >= 0;
    if (!has_no_name_)  // not every file system can do that
      put_aside([&](const char* name) {
        return file_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      });
    struct stat before {};
    if (file_ >= 0 && ::stat(target_.c_str(), &before) == 0)
      ::fchmod(file_, before.st_mode & 07777);
  }
  if (file_ < 0) fail("cannot write {}: {}", target_, std::strerror(errno));
}

// Makes a file under an unused name beside the target. On failure errno says why.
template <class Make>
bool NewFile::put_aside(Make make) {
  const auto folder = std::filesystem::path(target_).parent_path();
  for (unsigned attempt = 0; attempt < 1000; ++attempt) {
    aside_ = (folder / fmt::format(".ringsched-{}-{}", ::getpid(), attempt)).string();
    note(aside_);  // before it exists: a signal may come in between
    if (make(aside_.c_str()) >= 0) return true;
    const int why = errno;
    forget(aside_);
    aside_.clear();
    errno = why;
    if (why != EEXIST) break;
  }
  return false;
}

NewFile::~NewFile() {
  if (file_ >= 0) ::close(file_);
  if (aside_.empty()) return;
  ::unlink(aside_.c_str());
  forget(aside_);
}

void NewFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno();
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void NewFile::finish() {
  // No call gives a file the name of another one, so there is a temporary name for a moment.
  const std::string self = fmt::format("/proc/self/fd/{}", file_);
  if (std::exchange(has_no_name_, false) && !put_aside([&](const char* name) {
        return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
      }))
    fail_with_errno();
  if (::close(std::exchange(file_, -1)) != 0) fail_with_errno();
  if (aside_.empty()) return;
  if (::rename(aside_.c_str(), target_.c_str()) != 0) fail_with_errno();
  forget(aside_);
  aside_.clear();
}

void NewFile::fail_with_errno() const {
  throw std::runtime_error(fmt::format("cannot write {}: {}", target_, std::strerror(errno)));
}

namespace {

// A stream's length is unknown before it ends, so we trust less of it.
constexpr std::uint64_t kMaxStreamBytes = std::uint64_t{1} << 30;

struct OpenFile {
  const int number;
  ~OpenFile() {
    if (number > STDIN_FILENO) ::close(number);
  }
};

// Takes each piece of a text as it comes in, and throws Error as soon as no valid text continues
// like this.
using Check = std::function<void(std::string_view piece)>;

std::string read_checked(const std::string& path, std::uint64_t most, std::size_t padding,
                         const Check& check) {
  constexpr std::size_t first_piece = 1 << 16, largest_piece = 1 << 22;
  const std::string_view name = shown_path(path);
  const OpenFile file{path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  const auto fail_with_errno = [&] { fail("cannot read {}: {}", name, std::strerror(errno)); };
  const auto check_size = [&](std::uint64_t length) {
    if (length > most)
      fail("{}: larger than {} MiB, the limit for this file", name, (most >> 20) + 1);
  };
  if (file.number < 0) fail_with_errno();
  struct stat about {};
  const bool is_stream = ::fstat(file.number, &about) != 0 || !S_ISREG(about.st_mode);
  if (!is_stream) check_size(static_cast<std::uint64_t>(about.st_size));
  std::string buffer;
  for (std::size_t length = 0;;) {
    // Reserve room for a whole file only once its beginning is good.
    if (length > 0 && !is_stream)
      buffer.reserve(static_cast<std::size_t>(about.st_size) + 1 + padding);
    if (length == buffer.size())
      buffer.resize(length + std::clamp(length / 2, first_piece, largest_piece));
    const ssize_t n = ::read(file.number, buffer.data() + length, buffer.size() - length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno();
    const std::string_view piece(buffer.data() + length, static_cast<std::size_t>(n));
    check(piece);
    if (const std::size_t at = piece.find('\0'); at != piece.npos)
      fail("{}: byte {} is 0x00, which no text file holds", name, length + at);
    length += piece.size();
    check_size(length);
    if (is_stream && length > kMaxStreamBytes)
      fail("{}: more than 1 GiB from a stream; save it to a file first", name);
    if (n == 0) {
      buffer.resize(length);
      buffer.append(padding, '\0');
      return buffer;
    }
  }
}

}  // namespace

std::string read_whole(const std::string& path, std::uint64_t most) {
  return read_checked(path, most, 0, [](std::string_view) {});
}

std::string read_json(const std::string& path, std::uint64_t most, std::size_t padding) {
  // All of a stream, which may never end; of a file, which does, the beginning.
  constexpr std::size_t scanned_of_files = 1 << 20;
  std::error_code ignored;
  std::size_t left = path != "-" && std::filesystem::is_regular_file(path, ignored)
                         ? scanned_of_files
                         : std::numeric_limits<std::size_t>::max();
  JsonScanner scanner(shown_path(path), kMaxJsonDepth);
  return read_checked(path, most, padding, [&](std::string_view piece) {
    piece = piece.substr(0, left);
    left -= piece.size();
    scanner.read(piece);
  });
}

void require_json_object(std::string_view text, std::string_view name) {
  JsonScanner scanner(name, kMaxJsonDepth);
  scanner.read(text);
  scanner.end();
}

}  // namespace ringsched
