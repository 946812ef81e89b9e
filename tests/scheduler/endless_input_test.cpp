// Inputs that never end, or are very large, and cannot be valid: they are refused at the first byte
// that shows it. How much the writer could write by then says how early that was.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using testing::EndsWith;
using testing::StartsWith;

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& e) {
    return e.what();
  }
  return "it was read";
}

class EndlessInput : public testing::Test {
 protected:
  EndlessInput() {
    std::string name = testing::TempDir() + "ringsched-endless-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder_ = name;
    before_ = std::signal(SIGPIPE, SIG_IGN);
  }
  ~EndlessInput() override {
    std::signal(SIGPIPE, before_);
    std::filesystem::remove_all(folder_);
  }

  std::string path(const char* name) const { return (folder_ / name).string(); }

  struct Refused {
    std::string error;
    std::size_t taken = 0;  // bytes that the reader, or the pipe, had by then
  };
  // Reads from a pipe into which somebody writes `beginning`, and then `rest` again and again.
  Refused refusal_of(const std::string& beginning, const std::string& rest) const {
    const std::string fifo = path("fifo");
    if (::mkfifo(fifo.c_str(), 0600) != 0) throw std::runtime_error("cannot make " + fifo);
    Refused out;
    std::thread writer([&] {
      const int file = ::open(fifo.c_str(), O_WRONLY);
      const auto put = [&](std::string_view text) {
        while (!text.empty()) {
          const ssize_t n = ::write(file, text.data(), text.size());
          if (n < 0) return false;
          out.taken += static_cast<std::size_t>(n);
          text.remove_prefix(static_cast<std::size_t>(n));
        }
        return true;
      };
      if (put(beginning))
        while (out.taken < kFarTooMuch && put(rest)) {
        }
      ::close(file);
    });
    out.error = error_of([&] { read_plan_file(fifo); });
    writer.join();
    return out;
  }
  static constexpr std::size_t kFarTooMuch = std::size_t{1} << 28;

  std::filesystem::path folder_;
  sighandler_t before_ = nullptr;
};

TEST_F(EndlessInput, OfZerosIsRefusedAtItsFirstByte) {
  const std::string json = "/dev/zero:1:1: expected an object, which begins with '{'";
  EXPECT_EQ(error_of([] { read_plan_file("/dev/zero"); }), json);
  EXPECT_EQ(error_of([] { read_timeline_file("/dev/zero"); }), json);
  EXPECT_EQ(error_of([] { find_machine("/dev/zero"); }),
            "/dev/zero: byte 0 is 0x00, which no text file holds");
}

TEST_F(EndlessInput, ThatIsAHugeSparseFileIsRefusedWithoutRoomForIt) {
  std::ofstream(path("sparse.json")) << "";
  std::filesystem::resize_file(path("sparse.json"), std::uintmax_t{1} << 31);
  EXPECT_THAT(error_of([&] { read_plan_file(path("sparse.json")); }),
              EndsWith("sparse.json:1:1: expected an object, which begins with '{'"));
  EXPECT_THAT(error_of([&] { read_timeline_file(path("sparse.json")); }), EndsWith("with '{'"));
  EXPECT_THAT(error_of([&] { find_machine(path("sparse.json")); }),
              EndsWith("the limit for this file"));
}

TEST_F(EndlessInput, ThatGoesWrongFarBehindItsBeginningIsRefusedThere) {
  std::string text = write_plan(build_plan(small_problem(64, 64 * 64), find_schedule("ring")));
  while (text.size() < 2'000'000) text = "\n" + text + std::string(text.size(), ' ');
  std::ofstream(path("plan.json")) << text;
  std::filesystem::resize_file(path("plan.json"), std::uintmax_t{1} << 31);
  EXPECT_EQ(
      error_of([&] { read_plan_file(path("plan.json")); }),
      fmt::format("{}: byte {} is 0x00, which no text file holds", path("plan.json"), text.size()));
}

TEST_F(EndlessInput, OfGarbageInAPipeIsRefusedAtTheFirstWrongByte) {
  constexpr std::size_t pipe_and_pieces = std::size_t{1} << 20;
  struct Case {
    std::string beginning, rest, says;
  };
  const std::string plan = write_plan(build_plan(small_problem(4, 64), find_schedule("ring")));
  std::string half = plan;
  half.resize(plan.rfind("{\"do\""));
  const auto newlines = std::to_string(1 + std::count(half.begin(), half.end(), '\n'));
  for (const Case& c :
       {Case{"", "y\n", ":1:1: expected an object"}, Case{"", "{\n", ":2:1: expected the name"},
        Case{"  {\"format\" :", "\"x\",", ":1:21: expected ':'"},
        Case{half, "[]", ":" + newlines + ":5: expected ',' or ']'"},
        Case{plan, " y",
             ":" + std::to_string(1 + std::count(plan.begin(), plan.end(), '\n')) +
                 ":2: extra text after the end"}}) {
    const Refused r = refusal_of(c.beginning, c.rest);
    EXPECT_THAT(r.error, StartsWith(path("fifo") + c.says));
    EXPECT_LT(r.taken, c.beginning.size() + pipe_and_pieces);
    std::filesystem::remove(path("fifo"));
  }
}

// Growing texts, cut into the pieces that a pipe may make of them, mean the same.
TEST_F(EndlessInput, InPiecesIsReadLikeAWhole) {
  const Plan plan = build_plan(small_problem(9, 900), find_schedule("balanced"));
  const std::string text = write_plan(plan), fifo = path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] {
    const int file = ::open(fifo.c_str(), O_WRONLY);
    for (std::size_t at = 0, n = 1; at < text.size(); at += n, n = n % 97 + 1)
      if (::write(file, text.data() + at, std::min(n, text.size() - at)) < 0) break;
    ::close(file);
  });
  const std::string error = error_of([&] { EXPECT_EQ(write_plan(read_plan_file(fifo)), text); });
  writer.join();
  EXPECT_EQ(error, "it was read");
}

}  // namespace
}  // namespace ringsched
