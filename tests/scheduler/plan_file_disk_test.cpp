// Plan files on a real disk: nothing half written, nothing lost.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

class PlanFileOnDisk : public ::testing::Test {
 protected:
  PlanFileOnDisk() {
    std::string name = ::testing::TempDir() + "ringsched-plan-file-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder_ = name;
  }
  ~PlanFileOnDisk() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  std::filesystem::path folder_;
  Plan plan_ = build_plan(small_problem(4, 64), find_schedule("ring"));
};

TEST_F(PlanFileOnDisk, AFileHoldsTheTextAndNothingElseIsLeft) {
  write_plan_file(plan_, path("plan.json"));
  write_plan_file(plan_, path("plan.json"));  // over the first
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(write_plan(read_plan_file(path("plan.json"))), write_plan(plan_));
}

TEST_F(PlanFileOnDisk, AFileThatCannotBeWrittenLeavesTheOldOneAlone) {
  std::ofstream(path("plan.json")) << "old";
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  EXPECT_THROW(write_plan_file(plan_, path("plan.json")), std::runtime_error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(std::filesystem::file_size(path("plan.json")), 3u);
}

TEST_F(PlanFileOnDisk, WritingThroughALinkKeepsTheLink) {
  std::ofstream(path("real.json")) << "old";
  std::filesystem::create_symlink("real.json", path("link.json"));
  write_plan_file(plan_, path("link.json"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.json")));
  EXPECT_EQ(write_plan(read_plan_file(path("real.json"))), write_plan(plan_));
}

TEST_F(PlanFileOnDisk, WritingThroughALinkToNothingMakesWhatItNames) {
  std::filesystem::create_directory(path("plans"));
  std::filesystem::create_symlink("plans/new.json", path("link.json"));
  std::filesystem::create_symlink(path("link.json"), path("link_to_link.json"));
  write_plan_file(plan_, path("link_to_link.json"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link_to_link.json")));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.json")));
  EXPECT_EQ(write_plan(read_plan_file(path("plans/new.json"))), write_plan(plan_));
}

TEST_F(PlanFileOnDisk, ALinkToItselfIsAnError) {
  std::filesystem::create_symlink("loop.json", path("loop.json"));
  EXPECT_THROW(write_plan_file(plan_, path("loop.json")), Error);
  EXPECT_TRUE(std::filesystem::is_symlink(path("loop.json")));
  EXPECT_EQ(files(), 1);
}

TEST_F(PlanFileOnDisk, AFolderOrAMissingFileIsAnError) {
  EXPECT_THROW(write_plan_file(plan_, folder_.string()), Error);
  EXPECT_THROW(write_plan_file(plan_, path("missing/plan.json")), Error);
  EXPECT_THROW(write_plan_file(plan_, "/dev/full"), std::runtime_error);
  EXPECT_THROW(read_plan_file(folder_.string()), Error);
  EXPECT_THROW(read_plan_file(path("missing.json")), Error);
  EXPECT_NO_THROW(write_plan_file(plan_, "/dev/null"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace ringsched
