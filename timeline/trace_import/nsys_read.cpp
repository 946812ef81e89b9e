// Reads what `nsys export --type=sqlite` writes: kernels and their names. It gives no rank, and no
// bytes or peers of messages.
#include <memory>
#include <optional>

#include "names.hpp"
#include "rank_trace.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"

#ifdef RINGSCHED_SQLITE
#include <sqlite3.h>
#endif

namespace ringsched {

#ifdef RINGSCHED_SQLITE

namespace {

using namespace trace_import;

constexpr std::int64_t kMostNs = std::int64_t{1} << 62;
constexpr std::int64_t kMostSpanNs = 200'000'000'000'000;  // two days

struct Closed {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, Closed>;
using Query = std::unique_ptr<sqlite3_stmt, Closed>;

Database opened(const std::string& path) {
  sqlite3* db = nullptr;
  const int error = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  Database out(db);
  if (error != SQLITE_OK) fail("cannot read {}: {}", path, sqlite3_errstr(error));
  return out;
}

std::string_view text_at(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::optional<Named> meaning(std::string_view name, const TraceNames& names) {
  const auto has = [&](const std::string& part) {
    return !part.empty() && name.find(part) != name.npos;
  };
  if (has(names.attend_backward)) return Named{TraceWork::AttendBackward};
  if (has(names.attend)) return Named{TraceWork::Attend};
  std::optional<Named> known = kernel_named(name);
  const bool given = !names.attend.empty() || !names.attend_backward.empty();
  if (known && given &&
      (known->work == TraceWork::Attend || known->work == TraceWork::AttendBackward))
    known->work = TraceWork::Compute;
  return known;
}

}  // namespace

RankTrace read_nsys_file(const std::string& path, const TraceNames& names) {
  if (!names.annotation.empty())
    fail("{}: --annotation is only for traces from PyTorch's profiler", path);
  const Database db = opened(path);
  sqlite3_stmt* prepared = nullptr;
  const int error = sqlite3_prepare_v2(
      db.get(),
      "SELECT k.start, k.end, k.deviceId, k.streamId, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k "
      "JOIN StringIds s ON s.id = k.demangledName ORDER BY k.start",
      -1, &prepared, nullptr);
  const Query rows(prepared);
  if (error != SQLITE_OK)
    fail("{}: this is not what nsys export --type=sqlite writes of a run with kernels: {}", path,
         printable(sqlite3_errmsg(db.get()), 200));
  RankTrace out;
  out.name = path;
  bool first = true;
  int step = SQLITE_DONE;
  while ((step = sqlite3_step(rows.get())) == SQLITE_ROW) {
    const std::int64_t start = sqlite3_column_int64(rows.get(), 0),
                       end = sqlite3_column_int64(rows.get(), 1);
    if (start < 0 || end < start || end > kMostNs)
      fail("{}: a kernel runs from {} ns to {} ns", path, start, end);
    if (first) out.origin_ns = start;
    first = false;
    if (end - out.origin_ns > kMostSpanNs) fail("{}: kernels are over two days apart", path);
    const std::optional<Named> found = meaning(text_at(rows.get(), 4), names);
    if (!found) continue;
    TraceEvent& e = out.events.emplace_back();
    e.work = found->work;
    e.form = found->form;
    e.start_ps = (start - out.origin_ns) * 1000;
    e.end_ps = (end - out.origin_ns) * 1000;
    // On several devices, streams may have the same number.
    e.stream = sqlite3_column_int(rows.get(), 2) * (std::int64_t{1} << 32) +
               sqlite3_column_int(rows.get(), 3);
  }
  if (step != SQLITE_DONE)
    fail("cannot read {}: {}", path, printable(sqlite3_errmsg(db.get()), 200));
  if (first) fail("{}: there are no kernels in it", path);
  put_in_order(out);
  return out;
}

std::string sqlite_version() { return sqlite3_libversion(); }

#else

RankTrace read_nsys_file(const std::string& path, const TraceNames&) {
  fail("{}: traces of nsys need SQLite, which was absent when ringsched was built ({})", path,
       "Debian: libsqlite3-dev");
}

std::string sqlite_version() { return {}; }

#endif

}  // namespace ringsched
