// A run of two processes, of which this is process 0; the other one sends whatever it likes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

class LyingWorld final : public World {
 public:
  // What process 1 sends, given what process 0 sends.
  using Lie = std::function<std::string(const std::string&)>;
  explicit LyingWorld(Lie lie) : lie_(std::move(lie)) {}

  std::uint32_t rank() const override { return 0; }
  std::uint32_t size() const override { return 2; }
  std::string name() const override { return "lies"; }
  std::vector<std::string> gather(const std::string& text) override { return {text, lie_(text)}; }
  ClockReading read_clock() override { return {}; }
  std::vector<std::optional<LastWords>> last_words(const LastWords&) override { return {}; }
  void abort(int) override {}
  std::unique_ptr<Transport> transport(const Plan&, Control&) override { return nullptr; }

 private:
  const Lie lie_;
};

// Why the run fails if process 1 sends that.
inline std::string failure(const std::function<void(World&)>& of, LyingWorld::Lie lie) {
  LyingWorld world(std::move(lie));
  try {
    of(world);
  } catch (const RunFailed& failed) {
    return failed.what();
  }
  return "";
}

}  // namespace ringsched
