// What started a process, from launchers' environment variables.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "ringsched/runtime/world.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr const char* kKnown[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TORCHELASTIC_USE_AGENT_STORE",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "MPI_LOCALRANKID",
                                  "SLURM_PROCID",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_STEP_NODELIST"};

class Launched : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kKnown) {
      if (const char* text = std::getenv(name)) before_[name] = text;
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const char* name : kKnown) ::unsetenv(name);
    for (const auto& [name, text] : before_) ::setenv(name.c_str(), text.c_str(), 1);
  }
  Launch with(const Variables& variables, const LaunchFlags& flags = {}) {
    for (const char* name : kKnown) ::unsetenv(name);
    for (const auto& [name, text] : variables) ::setenv(name.c_str(), text.c_str(), 1);
    return launched_by(flags);
  }
  Variables before_;
};

const Variables kTorchrun = {{"RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "head"},
                             {"MASTER_PORT", "1234"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "5"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
const Variables kPmi = {{"PMI_RANK", "3"}, {"PMI_SIZE", "6"}};
const Variables kSlurm = {{"SLURM_PROCID", "4"},
                          {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_LOCALID", "2"},
                          {"SLURM_STEP_NODELIST", "node[07-12,15],login"}};

TEST_F(Launched, ByNobodyIsAlone) {
  const Launch l = with({});
  EXPECT_EQ(l.launcher, "");
  EXPECT_EQ(l.size, 1u);
  EXPECT_EQ(l.master, "");
}

TEST_F(Launched, ByTheFirstOfThoseThatLeftSomething) {
  Variables all;
  struct Expected {
    const Variables& variables;
    const char *launcher, *found;
    std::uint32_t rank, size;
    std::optional<std::uint32_t> local;
  };
  for (const Expected& e :
       {Expected{kSlurm, "srun", "SLURM_PROCID and SLURM_STEP_NUM_TASKS", 4, 7, 2},
        Expected{kPmi, "mpirun", "PMI_RANK and PMI_SIZE", 3, 6, {}},
        Expected{kOpenMpi, "mpirun", "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE", 2, 5, 0},
        Expected{kTorchrun, "torchrun", "RANK and WORLD_SIZE", 1, 4, 1}}) {
    all.insert(e.variables.begin(), e.variables.end());
    for (const Variables& variables : {e.variables, all}) {
      const Launch l = with(variables);
      EXPECT_EQ(l.launcher, e.launcher);
      EXPECT_EQ(l.found, e.found);
      EXPECT_EQ(l.rank, e.rank);
      EXPECT_EQ(l.size, e.size);
      EXPECT_EQ(l.local_rank, e.local);
    }
  }
  const Launch l = with(all, {"0", "2", "h:1"});
  EXPECT_EQ(l.launcher, "flags");
  EXPECT_EQ(l.size, 2u);
  EXPECT_EQ(l.master, "h:1");
}

TEST_F(Launched, KnowsWhereProcessZeroIs) {
  EXPECT_EQ(with(kTorchrun).master, "head:1234");
  Variables agent = kTorchrun;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(with(agent).master, "head:1235");
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(with(agent).master, "head:1234");
  EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}}).master,
            "[::1]:29500");
  EXPECT_EQ(with(kTorchrun, {"", "", "other:7"}).master, "other:7");
  EXPECT_EQ(with(kOpenMpi).master, "");
  for (const auto& [list, host] :
       std::map<std::string, std::string>{{"node[07-12,15],login", "node07"},
                                          {"a,b", "a"},
                                          {"alone", "alone"},
                                          {"n[3]", "n3"},
                                          {"n[1,4]-ib,m", "n1-ib"},
                                          {"login,n[1-2]", "login"}}) {
    Variables slurm = kSlurm;
    slurm["SLURM_STEP_NODELIST"] = list;
    EXPECT_EQ(with(slurm).master, host + ":29500");
  }
}

TEST_F(Launched, RefusesWhatMakesNoSense) {
  for (const auto& [rank, size] : std::vector<std::pair<std::string, std::string>>{
           {"4", "4"}, {"-1", "4"}, {"x", "4"}, {"0", "0"}, {"1", "4x"}, {"99999999999", "4"}}) {
    EXPECT_THROW(with({{"RANK", rank}, {"WORLD_SIZE", size}}), Error) << rank << " " << size;
    EXPECT_THROW(with({}, {rank, size, "h:1"}), Error) << rank << " " << size;
  }
  EXPECT_THROW(with({}, {"1", "", "h:1"}), Error);
  EXPECT_THROW(with({}, {"", "2", "h:1"}), Error);
}

TEST_F(Launched, RefusesHalfOfWhatALauncherLeaves) {
  const auto refusal = [&](const Variables& variables) -> std::string {
    try {
      with(variables);
    } catch (const Error& wrong) {
      return wrong.what();
    }
    return "";
  };
  EXPECT_EQ(
      refusal({{"RANK", "3"}}),
      "RANK is '3', but WORLD_SIZE (the number of processes) is not set; set both or neither");
  EXPECT_EQ(refusal({{"RANK", ""}, {"WORLD_SIZE", "4"}}),
            "WORLD_SIZE is '4', but RANK (the index of this process) is not set; set both or "
            "neither");
  for (const auto& [set, missing] : std::vector<std::pair<const char*, const char*>>{
           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
           {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
           {"PMI_RANK", "PMI_SIZE"},
           {"PMI_SIZE", "PMI_RANK"},
           {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const char* what =
        std::string(missing).ends_with("SIZE") ? "number of processes" : "index of this process";
    EXPECT_EQ(refusal({{set, "1"}}),
              fmt::format("{} is '1', but {} (the {}) is not set; set both or neither", set,
                          missing, what));
  }
  EXPECT_EQ(with({{"RANK", "3"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).size, 2u);
  EXPECT_EQ(with({{"RANK", "3"}}, {"0", "2", "h:1"}).size, 2u);
}

TEST_F(Launched, ByAScriptOfSbatchIsAlone) {
  const Launch l = with({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}});
  EXPECT_EQ(l.launcher, "");
  EXPECT_EQ(l.size, 1u);
}

// srun --mpi=pmi2 leaves what PMI does and what it leaves itself; a mpirun that has started its
// helpers by srun leaves Slurm's numbers of those.
TEST_F(Launched, BySrunWithPmi) {
  Variables both = kSlurm;
  both["PMI_RANK"] = "4";
  both["PMI_SIZE"] = "7";
  const Launch l = with(both);
  EXPECT_EQ(l.launcher, "srun");
  EXPECT_EQ(l.found, "PMI_RANK and PMI_SIZE");
  EXPECT_EQ(l.local_rank, 2u);
  EXPECT_EQ(l.master, "node07:29500");
  both["PMI_RANK"] = "9";
  both["PMI_SIZE"] = "14";
  EXPECT_EQ(with(both).launcher, "mpirun");
  EXPECT_EQ(with(both).master, "");
}

}  // namespace
}  // namespace ringsched
