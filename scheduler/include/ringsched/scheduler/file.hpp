// Whole files: read at once, or written atomically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringsched {

// Writes a file atomically: it has its name only once it is whole. Devices and pipes cannot be
// replaced and are written directly. Throws Error if there can be no such file, std::runtime_error
// if it cannot be written to its end.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void append(std::string_view text);
  void finish();

 private:
  [[noreturn]] void fail_with_errno() const;
  template <class Make>
  bool put_aside(Make);

  std::string target_, aside_;  // no name aside: none is there now
  int file_ = -1;
  bool has_no_name_ = false;  // until it is finished
};

// Unlinks unfinished files; for signal handlers.
void remove_unfinished_files();

// The contents of a text file, or of standard input for "-". Throws Error, also for a file of more
// than `most` bytes, a stream of more than 1 GiB, and at the first byte that no text has.
std::string read_whole(const std::string& path, std::uint64_t most);

// The same for a file that holds a JSON object, followed by `padding` zeros. It refuses a stream at
// the first byte that no such file can have there, so the stream need not end; the same for the
// beginning of a file. The parser judges the rest of a file.
std::string read_json(const std::string& path, std::uint64_t most, std::size_t padding = 0);
inline constexpr std::size_t kMaxJsonDepth = 16;  // plan files use four levels, timelines three

// Throws Error with line and column at the first byte where a text is not a JSON object. `name` is
// what messages call the text.
void require_json_object(std::string_view text, std::string_view name);

// What messages call it.
inline std::string_view shown_path(const std::string& path) {
  return path == "-" ? "standard input" : std::string_view(path);
}

}  // namespace ringsched
