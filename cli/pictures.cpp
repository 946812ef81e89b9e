#include "pictures.hpp"

#include <algorithm>
#include <filesystem>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kEnds[] = {".svg", ".pdf", ".png", ".html", ".dot", ".json"};

std::string_view end_of(FileKind kind) { return kEnds[static_cast<std::size_t>(kind)]; }

}  // namespace

FileKind file_kind(const std::string& path, const std::string& flag,
                   std::span<const FileKind> allowed) {
  std::string names;
  for (const FileKind kind : allowed) {
    if (path.size() > end_of(kind).size() && path.ends_with(end_of(kind))) return kind;
    names += (names.empty()            ? ""
              : kind == allowed.back() ? " or "
                                       : ", ") +
             std::string(end_of(kind));
  }
  fail("{} {}: use a name that ends in {}", flag, path, names);
}

void check_output(const std::string& path, const std::string& flag,
                  std::span<const std::string> others) {
  namespace fs = std::filesystem;
  if (path.empty()) return;
  if (path == "-") fail("{} -: give a file name", flag);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail("cannot write {}: it is a directory", path);
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    fail("cannot write {}: no such folder: {}", path, folder.string());
  // A file that does not exist yet has only an absolute canonical name.
  const auto canonical = [&](const fs::path& p) {
    return fs::weakly_canonical(fs::absolute(p, ignored), ignored);
  };
  for (const std::string& other : others)
    if (!other.empty() &&
        (fs::equivalent(path, other, ignored) || canonical(path) == canonical(other)))
      fail("{} {} would overwrite {}", flag, path, other);
  // Trying would close a pipe.
  if (!fs::exists(path, ignored) || fs::is_regular_file(path, ignored)) NewFile{path};
}

void write_text(const std::string& text, const std::string& path) {
  NewFile file(path);
  file.append(text);
  file.finish();
}

void write_picture(const Picture& p, FileKind kind, const std::string& path, double scale) {
  NewFile file(path);  // first: report an unwritable place before the work
  file.append(kind == FileKind::Svg ? svg(p) : kind == FileKind::Pdf ? pdf(p) : png(p, scale));
  file.finish();
}

}  // namespace ringsched
