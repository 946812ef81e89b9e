// `ringsched simulate`, `machines`, `sweep`, `compare`, `export` and `validate`, as a user sees
// them.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "ringsched/scheduler/plan_file.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/program.hpp"

namespace {

using ringsched::expect_golden;
using ringsched::Outcome;
using ringsched::read_all;
using ringsched::source_folder;
using testing::HasSubstr;

class SimulateProgram : public ringsched::ProgramTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void expect_refused(const std::string& arguments, const std::string& says) const {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_EQ(o.out, "") << arguments;
    EXPECT_THAT(o.err, HasSubstr(says)) << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
};

// The number behind a key of a JSON text.
double value(const std::string& json, const std::string& key) {
  const std::size_t at = json.find("\"" + key + "\": ");
  EXPECT_NE(at, std::string::npos) << key << " in " << json.substr(0, 300);
  return std::atof(json.c_str() + at + key.size() + 4);
}

TEST_F(SimulateProgram, DrawsTheCriticalPathAsAskedFor) {
  const auto drawn = [&](const std::string& how) {
    const Outcome o = run("simulate -w 4 -s ring --gantt c.svg " + how);
    EXPECT_EQ(o.code, 0) << o.err;
    return read_all(folder_ / "c.svg");
  };
  const std::string none = drawn("--critical-path none");
  EXPECT_THAT(none, testing::Not(HasSubstr("critical path")));
  EXPECT_THAT(drawn("--critical-path outline"), HasSubstr(">critical path<"));
  EXPECT_THAT(drawn("--critical-path fade"), HasSubstr("all else is pale"));
  expect_refused("simulate --gantt c.svg --critical-path loud", "--critical-path is 'loud'");
  for (const char* elsewhere : {"", "--gantt c.html", "--block-map c.svg", "--timeline t.json"})
    expect_refused(std::string("simulate --critical-path none ") + elsewhere,
                   "--critical-path is only for a chart: --gantt FILE (.svg, .pdf or .png)");
  EXPECT_EQ(run("run --critical-path none --gantt c.svg").code, 2) << "measured runs have none";
}

TEST_F(SimulateProgram, SaysAtLengthWhatItAlwaysSaid) {
  expect_golden("simulate_help.txt", run("simulate --help").out);
  expect_golden("simulate_ideal.txt", run("simulate").out);
  expect_golden("simulate_zigzag_a100.txt",
                run("simulate -m dgx-a100 -s zigzag --pass both --path").out);
  expect_golden("simulate_two_nodes.json",
                run("simulate -m dgx-a100x2-ib100 -w 3 -s ring --format json --path "
                    "--what-if bandwidth=2x")
                    .out);
  expect_golden("machines.txt", run("machines").out);
  for (const char* show : {"machines show lightseq", "machines lightseq"}) {
    EXPECT_EQ(run(show).out, read_all(source_folder() / "machines/software/lightseq.toml"));
  }
  const std::string five = "ring,striped,zigzag,balanced,balanced-split";
  expect_golden("sweep.txt", run("sweep -m ideal,dgx-a100 -w 7,8 -t 64K -s " + five).out);
}

TEST_F(SimulateProgram, ChecksProfiles) {
  const Outcome good = run("machines check dgx-a100");
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, testing::StartsWith("dgx-a100: no errors\n"));
  EXPECT_THAT(good.out, HasSubstr("\nhost             no [host]"));
  write("bad.toml", "name = 7\n[memory]\ngb_per_s = \"x\"\nsource = \"s\"\n");
  write("not.toml", "{\"machines\": []}");
  EXPECT_THAT(run("machines check not.toml").out,
              testing::StartsWith("not.toml:1: not a TOML file: "));
  const Outcome bad = run("machines check bad.toml");
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.err, "");
  EXPECT_EQ(bad.out,
            "bad.toml:1: name must be a string, not 7\n"
            "bad.toml:3: memory.gb_per_s must be a number from 1e-06 to 1e+06, not \"x\"\n"
            "bad.toml:1: summary is missing\n"
            "bad.toml:1: kernel is missing: a machine needs at least one [[kernel]] table\n"
            "bad.toml: 4 errors\n");
  const Outcome json = run("machines check bad.toml --format json");
  EXPECT_EQ(json.code, 2);
  EXPECT_THAT(json.out, HasSubstr("\"good\": false"));
  EXPECT_THAT(json.out, HasSubstr("not \\\"x\\\"\""));
  EXPECT_EQ(run("machines --format json check bad.toml").out, json.out);
  expect_refused("machines check", "FILE is required");
  expect_refused("machines check nowhere.toml", "nowhere.toml");
  expect_refused("machines check dgx_a100", "did you mean dgx-a100?");
}

TEST_F(SimulateProgram, WritesProfilesFromDatasheets) {
  const Outcome made =
      run("machines new --gpu l20 --gpus 4 --nodes 2 --nic ib200 --nics 1 -o l20.toml");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(run("machines check l20.toml").code, 0);
  const Outcome predicted = run("simulate --machine l20.toml -w 8 -s zigzag --format json");
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_GT(value(predicted.out, "makespan_us"), 0);
  const Outcome printed = run("machines new --gpu l20 --gpus 4 --nodes 2 --nic ib200 --nics 1");
  EXPECT_EQ(printed.out, read_all(folder_ / "l20.toml"));
  EXPECT_THAT(printed.out, testing::StartsWith("# Made by: ringsched machines new --gpu l20 --gpus "
                                               "4 --nodes 2 --nic ib200 --nics 1\n"));
  expect_refused("machines new", "--gpu is required");
  expect_refused("machines new --gpu l2", "did you mean l20?");
  expect_refused("machines new --gpu l20 --gpus 0", "--gpus");
  expect_refused("machines new --gpu l20 -o l20.txt", ".toml");
  expect_refused("machines new --gpu l20 --lnk pcie4", "did you mean --link?");
  expect_refused("machines --format json new --gpu l20", "--format is not for machines new");
}

// What is made of datasheets must lie around what was measured, in as many cases as it says.
TEST_F(SimulateProgram, DatasheetsAreAsUnsureAsTheySay) {
  int within = 0, all = 0;
  for (const auto& [gpu, measured] :
       {std::pair{"a100", "dgx-a100"}, {"h100", "hgx-h100"}, {"h200", "hgx-h200"}}) {
    ASSERT_EQ(run(fmt::format("machines new --gpu {0} -o {0}.toml", gpu)).code, 0);
    EXPECT_THAT(run(fmt::format("machines new --gpu {0} -o {0}.toml", gpu)).err,
                HasSubstr(".toml exists; remove it first"));
    EXPECT_EQ(run(fmt::format("machines show {}.toml", gpu)).out,
              read_all(folder_ / fmt::format("{}.toml", gpu)));
    for (const char* schedule : {"ring", "zigzag", "balanced", "ulysses"}) {
      const auto json = [&](const char* machine) {
        return run(fmt::format("simulate --machine {} -s {} -t 64K --format json", machine,
                               schedule))
            .out;
      };
      const std::string from_datasheets = json(fmt::format("{}.toml", gpu).c_str());
      double low = 0, high = 0;
      const std::size_t at = from_datasheets.find("\"interval_80_us\": [");
      ASSERT_NE(at, std::string::npos);
      ASSERT_EQ(
          std::sscanf(from_datasheets.c_str() + at, "\"interval_80_us\": [%lf, %lf]", &low, &high),
          2);
      const double makespan = value(json(measured), "makespan_us");
      ++all;
      within += low <= makespan && makespan <= high;
    }
  }
  EXPECT_EQ(all, 12);
  EXPECT_GE(within, 0.8 * all);
}

TEST_F(SimulateProgram, FitsAMachineToOneMeasuredTime) {
  const std::string flags = "simulate -m dgx-a100 -s zigzag --no-chart --calibrate-with ";
  const Outcome text = run(flags + "ms=26");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("makespan         26.0 ms"));
  EXPECT_THAT(text.out, HasSubstr("calibrated       "));
  EXPECT_THAT(text.out,
              HasSubstr("x the profile's time; the prediction was\n                 24.2 ms; "));
  EXPECT_THAT(text.out, HasSubstr("80% interval"));
  const std::string json = run(flags + "us=26000 --format json").out;
  EXPECT_NEAR(value(json, "makespan_us"), 26000, 26);
  EXPECT_GT(value(json, "factor"), 1);
  EXPECT_NEAR(value(json, "spreads_away"), (value(json, "factor") - 1) / value(json, "spread"),
              1e-6);
  for (const char* time : {"26", "ms=", "ms=0", "ms=-1", "ms=nan", "ms=1x", "h=1"})
    expect_refused(flags + time, "--calibrate-with is");
  expect_refused(
      flags + "ms=0.001",
      "even with one figure of profile 'dgx-a100' 10x better, the prediction is at least ");
  expect_refused("simulate --calibrate-with ms=1", "use --machine");
}

// Also where links by NCCL's channels were scaled.
TEST_F(SimulateProgram, SavesTheFittedMachineForOtherCommands) {
  for (const std::string problem :
       {"-s zigzag", "-s zigzag --tokens 16K", "-s ulysses --heads 64"}) {
    const std::string flags = "simulate -m dgx-a100 --no-chart --format json " + problem;
    const double us = value(run(flags).out, "makespan_us");
    const std::string fitted = fmt::format(" --calibrate-with us={}", 1.3 * us);
    ASSERT_EQ(run(flags + fitted + " --save-profile mine.toml").code, 0);
    const Outcome again = run("simulate -m mine.toml --no-chart --format json " + problem);
    EXPECT_NEAR(value(again.out, "makespan_us"), 1.3 * us, 2e-3 * us) << problem;
    EXPECT_EQ(run("machines check mine.toml").code, 0);
  }
  expect_refused("simulate -m dgx-a100 --save-profile mine.toml", "needs --calibrate-with");
  expect_refused("simulate -m dgx-a100 --calibrate-with ms=26 --save-profile mine.txt",
                 "a name that ends in .toml");
  // A library of its own, which --software replaces.
  ASSERT_EQ(run("simulate -m hgx-h100 -t 8K -s zigzag --software ring-flash-attention "
                "--calibrate-with ms=3 --save-profile host.toml")
                .code,
            0);
  const std::string replaced = "--software lightseq replaces the [software] and [host] of profile";
  for (const std::string command : {"simulate --no-chart", "sweep"}) {
    EXPECT_THAT(run(command + " -m host.toml -t 8K -s zigzag --software lightseq").out,
                HasSubstr(replaced));
    EXPECT_THAT(run(command + " -m host.toml -t 8K -s zigzag").out, Not(HasSubstr("replaces")));
    EXPECT_THAT(run(command + " -m hgx-h100 -t 8K -s zigzag --software lightseq").out,
                Not(HasSubstr("replaces")));
  }
  const std::string mine = read_all(folder_ / "mine.toml");
  expect_refused("simulate -m mine.toml --calibrate-with ms=26 --save-profile ./mine.toml",
                 "mine.toml");
  EXPECT_EQ(read_all(folder_ / "mine.toml"), mine);
}

TEST_F(SimulateProgram, SaysWhatNoFigureExplains) {
  expect_refused(
      "simulate -m dgx-a100x2-ib200 --software ring-flash-attention -s ring -w 8 -t 8K --nccl-ctas "
      "1 --calibrate-with ms=2.4",
      "no single figure of profile 'dgx-a100x2-ib200' explains 2.4 ms");
  expect_refused(
      "simulate -m hgx-h100 --software ultraattn -s all-gather -w 4 --exchanges ring --overlap "
      "none",
      "with software.tensors_apart, transfers of keys and of values would wait for one another");
}

TEST_F(SimulateProgram, NamesTheFlagsThatItWasGiven) {
  EXPECT_THAT(run("simulate --no-chart --diagonal 0").out, HasSubstr("with diagonal 0\n"));
  EXPECT_THAT(run("simulate --no-chart --nccl-ctas 0").out, testing::Not(HasSubstr("NCCL")));
  EXPECT_THAT(run("simulate -m dgx-a100 --no-chart --nccl-ctas 2").out,
              HasSubstr("with NCCL thread blocks 2\n"));
}

TEST_F(SimulateProgram, LimitsTheThreadBlocksOfNccl) {
  const std::string flags = "simulate -m hgx-h100 -s ring --tokens 16K --format json --nccl-ctas ";
  const double all = value(run(flags + "0").out, "makespan_us"),
               one = value(run(flags + "1").out, "makespan_us");
  EXPECT_GT(one, 1.01 * all);
  EXPECT_EQ(value(run(flags + "64").out, "makespan_us"), all);
  expect_refused("simulate --nccl-ctas 4", "on machine 'ideal' transfers hold no SMs");
  expect_refused("simulate -m hgx-h100 --nccl-ctas 65", "use 0 to 64");
}

// ring-flash-attention calls FlashAttention-2, where the machine's profile says what that takes.
TEST_F(SimulateProgram, TakesTheKernelsThatALibraryCalls) {
  const std::string of = "simulate -m hgx-h100 --no-chart --software ring-flash-attention";
  EXPECT_THAT(run(of).out, HasSubstr("with kernels fa2; software ring-flash-attention\n"));
  EXPECT_THAT(run(of + " --kernels fa3").out, HasSubstr("with kernels fa3; "));
  EXPECT_EQ(run(of + " --format json").out, run(of + " --format json --kernels fa2").out);
  EXPECT_THAT(run("simulate -m hgx-b200 --no-chart --software ring-flash-attention").out,
              testing::Not(HasSubstr("fa2")));
  EXPECT_THAT(
      run("sweep -m hgx-h100 -s ring --software ring-flash-attention").out,
      HasSubstr("\nring-flash-attention itself has ring, zigzag, striped and all-gather; "));
}

TEST_F(SimulateProgram, SweepsAllSchedulesAndOthers) {
  const auto lines = [&](const std::string& flags) {
    const std::string csv = run("sweep --format csv " + flags).out;
    return std::count(csv.begin(), csv.end(), '\n');
  };
  const auto all = lines("-s all");
  const std::string whole = run("sweep -s all --format csv").out;
  EXPECT_THAT(whole, HasSubstr(",all-gather:shares=zigzag,"));
  EXPECT_THAT(whole, testing::Not(HasSubstr("shares=documents")));
  const std::string packed =
      run("sweep -s all -w 4 -t 4K --mask documents:2K,1K,1K --format csv").out;
  EXPECT_THAT(packed, HasSubstr(",zigzag:shares=documents,"));
  EXPECT_THAT(packed, HasSubstr(",all-gather:shares=documents,"));
  EXPECT_EQ(lines("-s all,zigzag"), all);
  EXPECT_EQ(lines("-s all,usp:ulysses=2"), all + 1);
  EXPECT_EQ(lines("-s usp:ulysses=2,all"), all + 1);
  EXPECT_EQ(lines("-s all --mask full"), all - 2);
}

TEST_F(SimulateProgram, SaysHowOftenTheBestOfASweepWins) {
  const std::string rows = run("sweep -m dgx-a100 -s ring,zigzag --format json").out;
  EXPECT_THAT(rows, HasSubstr("\"slower_in\": 1.000}"));  // of ring
  EXPECT_THAT(rows, HasSubstr("\"slower_in\": null}"));   // of zigzag, which is the best
}

TEST_F(SimulateProgram, SaysWhatAMachineProfileIsForWhereItDoesNotFit) {
  write("mine.toml", run("machines dgx-a100").out);
  expect_refused("simulate -m dgx-a100 --software mine.toml",
                 "mine.toml is a machine profile; --software takes a file with [software] and "
                 "[host]");
  expect_refused("validate --file mine.toml",
                 "mine.toml is a machine profile, not a file of measurements; use it with "
                 "--machine");
}

TEST_F(SimulateProgram, GivesTheNumbersOfTheBlockModel) {
  struct {
    const char* flags;
    double makespan, speedup, idle;
  } const cases[] = {
      {"--workers 8 --schedule balanced", 4.5, 32 / 4.5, 1 - 32 / 36.0},
      {"--workers 8 --schedule ring", 7.5, 32 / 7.5, 1 - 32 / 60.0},
      {"--workers 8 --schedule ring --diagonal 1", 8, 36 / 8.0, 1 - 36 / 64.0},
      {"--workers 8 --schedule balanced --diagonal 1", 5, 36 / 5.0, 0.1},
      {"--workers 8 --schedule zigzag", 4, 8, 0},
      {"--workers 8 --schedule balanced-split", 4, 8, 0},
      {"--workers 7 --schedule balanced --diagonal 1/4", 3.25, 22.75 / 3.25, 0},
      {"--workers 8 --schedule striped --diagonal 0.5", 4, 8, 0},
  };
  for (const auto& c : cases) {
    const std::string json = run("simulate --format json " + std::string(c.flags)).out;
    EXPECT_EQ(value(json, "makespan_us"), c.makespan) << c.flags;
    EXPECT_DOUBLE_EQ(value(json, "speedup"), c.speedup) << c.flags;
    EXPECT_NEAR(value(json, "idle_fraction"), c.idle, 1e-12) << c.flags;
    EXPECT_EQ(value(json, "overlap_fraction"), 1) << c.flags;
    EXPECT_EQ(value(json, "exposed_communication_us"), 0) << c.flags;
    EXPECT_GT(value(json, "peak_bytes"), 0) << c.flags;
  }
}

TEST_F(SimulateProgram, SaysWhichHeadDimensionItsKernelTimesAreOf) {
  EXPECT_THAT(run("simulate -m dgx-a100 --head-dim 512").out,
              HasSubstr("with kernel times derived from those of head dimension 256: the profile "
                        "has none for 512"));
  EXPECT_THAT(run("simulate -m laptop --head-dim 512").out,
              HasSubstr("with kernel times of head dimension 128, the nearest to 512"));
  EXPECT_THAT(run("simulate -m dgx-a100 --head-dim 128").out,
              testing::Not(HasSubstr("head dimension")));
}

TEST_F(SimulateProgram, AnswersBadInputWithOneLineAndStatusTwo) {
  write("good.toml",
        "name = \"x\"\nsummary = \"y\"\nbase = \"dgx-a100\"\n[memory]\ngb_per_s = 1000\n"
        "source = \"z\"\n");
  EXPECT_EQ(run("simulate -m ./good.toml").code, 0);
  write("key.toml",
        "name = \"x\"\nsummary = \"y\"\nbase = \"dgx-a100\"\n[memory]\ngb_per_sec = 1\n");
  write("negative.toml",
        "name = \"x\"\nsummary = \"y\"\nbase = \"dgx-a100\"\n[memory]\ngb_per_s = -1\n");
  write("nan.toml", "name = \"x\"\nsummary = \"y\"\nbase = \"dgx-a100\"\n[launch]\nus = nan\n");
  // A plan for a window does not compute what a causal mask asks for.
  ASSERT_EQ(run("plan -w 4 -s ring --mask window:8K -o plan.json").code, 0);
  std::string plan = read_all(folder_ / "plan.json");
  const std::size_t mask = plan.find("window:8192");
  ASSERT_NE(mask, std::string::npos);
  write("wrong.json", plan.replace(mask, 11, "causal"));
  write("timeline.json", "{\"format\": \"else\"}");
  write("not.toml", "{\"machines\": []}");

  struct {
    const char* arguments;
    const char* says;
  } const cases[] = {
      {"simulate -m dgx-a10", "unknown machine 'dgx-a10'; did you mean dgx-a100?"},
      {"simulate -m ./none.toml", "cannot read ./none.toml"},
      {"simulate -m ./key.toml", "./key.toml:5: unknown key 'memory.gb_per_sec'; did you mean"},
      {"simulate -m ./negative.toml", "./negative.toml:5: memory.gb_per_s must be a number"},
      {"simulate -m ./nan.toml", "./nan.toml:5: launch.us must be a number"},
      {"simulate -m /dev/zero", "/dev/zero: byte 0 is 0x00"},
      {"simulate -m ./", "cannot read ./: Is a directory"},
      {"simulate -m dgx-a100 -t 2147483647 --mask full --heads 128",
       "the longest that can be simulated"},
      {"simulate -m dgx-a100 -w 16", "16 workers do not fit on machine 'dgx-a100'"},
      {"simulate -m dgx-a100 --dtype fp32",
       "no forward kernel times for fp32, only for bf16 and fp16"},
      {"simulate -m dgx-a100 --kernels cudnn", "has no choice of kernel libraries"},
      {"simulate -m hgx-h100 --kernels fa4", "unknown kernel library 'fa4'; did you mean"},
      {"simulate -m dgx-a100 --diagonal 1", "--diagonal is only for machine 'ideal'"},
      {"simulate --diagonal 2", "--diagonal is '2'; use a number from 0 to 1"},
      {"simulate --diagonal x", "--diagonal is 'x'; use a number from 0 to 1"},
      {"simulate --noise -1", "--noise is '-1'; use a percentage from 0% to 25%, e.g. 5%"},
      {"simulate --noise 5", "--noise is '5', without a percent sign; use 5%"},
      {"simulate --noise nan", "--noise is 'nan'; use a percentage from 0% to 25%"},
      {"simulate --noise 0.3", "--noise is '0.3'; use a percentage from 0% to 25%"},
      {"simulate --noise 500", "--noise is '500'; use a percentage from 0% to 25%"},
      {"simulate --noise 26%", "--noise is '26%'; use a percentage from 0% to 25%"},
      {"simulate --runs 5", "--runs 5: all runs would be identical; add --noise or --stragglers"},
      {"simulate --runs 0", "--runs is 0; use 1 to 1000000"},
      {"simulate --slow-worker 8:2", "--slow-worker 8:2: the worker must be 0 to 7"},
      {"simulate --slow-worker 1.5:2", "--slow-worker 1.5:2: the worker must be 0 to 7"},
      {"simulate --slow-worker 3:2 --slow-worker 3:4", "--slow-worker gives worker 3 twice"},
      {"simulate --seed 99999999999999999999", "a whole number from 0 to 18446744073709551615"},
      {"simulate -w 99999999999999999999", "use a whole number from 1 to 65535"},
      {"simulate -t 9000000000G", "use a whole number up to 9223372036854775807"},
      {"simulate --diagonal 1/0", "--diagonal (denominator) is '0'; use a number from 1"},
      {"simulate --what-if bandwidth=2x",
       "machine 'ideal' has no such figure, as it only counts blocks"},
      {"simulate -m dgx-a100 --what-if bandwith=2x",
       "unknown --what-if change 'bandwith'; did you mean"},
      {"simulate -m dgx-a100 --what-if kernels=0x", "the factor must be above 0"},
      {"simulate wrong.json", "wrong.json fails verification"},
      {"simulate plan.json -w 4", "leave out --workers"},
      {"export plan.json --pass both", "leave out --pass"},
      {"simulate none.json", "cannot read none.json"},
      {"simulate --timeline none/t.json", "cannot write none/t.json"},
      {"sweep -s ring,nope", "unknown schedule 'nope'"},
      {"compare t.json t.json --tolerance 10", "--tolerance 10 means 1000%; use 10%"},
      {"validate --tolerance 10", "--tolerance 10 means 1000%; use 10% for 10 percent"},
      {"simulate -m dgx-h100", "did you mean hgx-h100?"},
      {"simulate -m h100", "did you mean hgx-h100?"},
      {"simulate -m DGX-A100", "did you mean dgx-a100?"},
      {"sweep -w 4,,8", "a value is missing beside a comma"},
      {"sweep -w 4,8 -t 4096,4K", "ring (prefetch) with 4 workers on ideal is given twice"},
      {"simulate -m ./good.toml -w 4 --timeline good.toml", "would overwrite ./good.toml"},
      {"export -m ./good.toml -w 4 -o good.toml", "would overwrite ./good.toml"},
      {"export plan.json -o ./plan.json", "would overwrite plan.json"},
      {"compare timeline.json timeline.json", "\"format\" must be \"ringsched-timeline\""},
      {"machines none", "unknown profile 'none'"},
      {"machines check plan.json", "; a profile's file name ends in .toml"},
      {"validate --file not.toml", "not.toml:1: not a TOML file: "},
  };
  for (const auto& c : cases) {
    const Outcome o = run(c.arguments);
    EXPECT_EQ(o.code, 2) << c.arguments << "\n" << o.err;
    EXPECT_EQ(o.out, "") << c.arguments;
    EXPECT_THAT(o.err, HasSubstr(c.says)) << c.arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

TEST_F(SimulateProgram, CountsBlocksOnTheBlockModel) {
  EXPECT_THAT(run("simulate").out, HasSubstr("\nmakespan         4.5 blocks; 7.11x as fast"));
  const Outcome drawn = run("simulate --timeline t.json --gantt t.svg --what-if worker:7=2x");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, HasSubstr("\nwhat if          worker:7=2x: 9 blocks (2.0x)\n"));
  EXPECT_THAT(read_all(folder_ / "t.svg"), HasSubstr("makespan 4.5 blocks"));
  EXPECT_THAT(read_all(folder_ / "t.json"), HasSubstr("\n\"unit\": \"blocks\",\n"));
  EXPECT_THAT(run("render t.json").out, HasSubstr(" 4.5 blocks\n"));
  ASSERT_EQ(run("render t.json -o t.html").code, 0);
  EXPECT_THAT(read_all(folder_ / "t.html"), HasSubstr("\"unit\":\"blocks\""));
  EXPECT_THAT(run("compare t.json t.json").out, HasSubstr(", 4.5 blocks\n"));
  EXPECT_THAT(run("compare t.json t.json --format json").out, HasSubstr("\"unit\": \"blocks\""));
  EXPECT_THAT(run("simulate --format json").out,
              HasSubstr("\"unit\": \"blocks\",\n  \"makespan_us\": 4.5,"));
  EXPECT_THAT(run("sweep -s ring").out, HasSubstr("  7.5 blocks  "));
  EXPECT_THAT(run("sweep -s ring -o s.csv").out, HasSubstr("  7.5 blocks  "));
  EXPECT_THAT(run("sweep -s ring -o s.csv").out, HasSubstr("  7.5 blocks  "));  // from the file
  EXPECT_THAT(run("sweep -s ring --format json").out, HasSubstr("\"unit\": \"blocks\""));
  // Seconds stay seconds, and do not compare with blocks.
  ASSERT_EQ(run("simulate -m dgx-a100 --timeline a.json").code, 0);
  EXPECT_THAT(read_all(folder_ / "a.json"), testing::Not(HasSubstr("\"unit\"")));
  EXPECT_THAT(run("simulate -m dgx-a100 --format json").out, HasSubstr("\"unit\": \"us\""));
  for (const char* both : {"compare t.json a.json", "render t.json a.json -o x.svg"}) {
    const Outcome o = run(both);
    EXPECT_EQ(o.code, 2) << both;
    EXPECT_THAT(o.err, HasSubstr("one timeline is in blocks"));
  }
}

TEST_F(SimulateProgram, NamesAFileOfTheWrongKind) {
  ASSERT_EQ(run("plan -w 2 -s ring -o plan.json").code, 0);
  ASSERT_EQ(run("simulate -w 2 -s ring --timeline t.json --trace trace.json").code, 0);
  ASSERT_EQ(run("sweep -w 2 -s ring -o sweep.csv").code, 0);
  write("own.toml", run("machines dgx-a100").out);
  const std::pair<const char*, const char*> cases[] = {
      {"verify t.json",
       "t.json is a timeline, not a plan; use it with ringsched render, plot or compare"},
      {"simulate t.json", "t.json is a timeline, not a plan"},
      {"run t.json", "t.json is a timeline, not a plan"},
      {"export t.json", "t.json is a timeline, not a plan"},
      {"verify sweep.csv", "sweep.csv is the CSV of a sweep, not a plan"},
      {"verify own.toml", "own.toml is a machine profile, not a plan; use it with --machine"},
      {"render sweep.csv",
       "sweep.csv is the CSV of a sweep, not a plan or a timeline; ringsched sweep"},
      {"render trace.json", "trace.json is a trace, not a plan or a timeline; open it in Perfetto"},
      {"compare plan.json t.json", "plan.json is a plan, not a timeline"},
      {"compare t.json sweep.csv", "sweep.csv is the CSV of a sweep, not a timeline"},
  };
  for (const auto& [arguments, says] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_EQ(o.out, "") << arguments;
    EXPECT_THAT(o.err, HasSubstr(says)) << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

TEST_F(SimulateProgram, SaysWhatIsUnusualAboutARun) {
  const std::string of = "simulate -m hgx-h100 -w 4 -t 4K --no-chart ";
  EXPECT_THAT(run(of).out, HasSubstr("\nwith kernels cudnn\n"));
  EXPECT_THAT(run(of + "--kernels fa2 --slow-worker 3:2").out,
              HasSubstr("\nwith kernels fa2; worker 3 2x slower\n"));
  EXPECT_THAT(run(of + "--noise 5% --runs 1 --format json").out,
              HasSubstr("\"conditions\": \"kernels cudnn; noise 5% (seed 1)\","));
}

TEST_F(SimulateProgram, SaysWhyAScheduleHasNoResult) {
  const std::string out = run("sweep -m dgx-a100 -w 8 --heads 4 -s zigzag,ulysses").out;
  EXPECT_THAT(
      out,
      HasSubstr("\n   no result for ulysses: 4 heads are too few for 8 workers; use at most 4\n"
                "     workers (the heads need not divide evenly among them), or ulysses:pad=1,\n"
                "     which pads the heads\n"));
  EXPECT_THAT(run("sweep -m dgx-a100 -w 8 --heads 4 -s zigzag,ulysses --overlap none,prefetch").out,
              HasSubstr("\n   no result for ulysses none, ulysses prefetch: "));
}

TEST_F(SimulateProgram, SaysWhatLimitsDecoding) {
  EXPECT_THAT(run("simulate -m dgx-a100 -s flash-decode --no-chart").out,
              HasSubstr("\nattends          limited by memory bandwidth\n"));
}

TEST_F(SimulateProgram, SaysWhatPricedTheExchangesOfAPlan) {
  ringsched::Problem p = ringsched::small_problem(4, 4096);
  write("ulysses.json", write_plan(ringsched::ulysses_by_hand(p)));
  p.workers = 16;
  p.pass = ringsched::Pass::Both;
  write("gather.json", write_plan(ringsched::all_gather_by_hand(p)));
  const auto line = [&](const std::string& flags) {
    const std::string out = run("simulate --no-chart " + flags).out;
    const std::size_t at = out.find("\nexchanges");
    if (at == out.npos) return out;
    std::string text = out.substr(at + 18, out.find("\n\n", at) - at - 18);
    for (std::size_t wrap; (wrap = text.find("\n   ")) != text.npos;)  // into lines of a label
      text.replace(wrap, text.find_first_not_of("\n ", wrap) - wrap, " ");
    return text.substr(0, text.find('\n'));
  };
  EXPECT_THAT(
      line("gather.json -m gb200-nvl72"),
      testing::StartsWith("2 all-gathers among 16 workers (from the profile's table for 8); "));
  EXPECT_EQ(line("ulysses.json -m hgx-h100"),
            "3 all-to-alls among 4 workers (from the profile's table)");
  EXPECT_EQ(line("ulysses.json -m pcie-4090x8"),
            "3 all-to-alls among 4 workers (from link speeds; the profile has no table)");
  EXPECT_EQ(line("ulysses.json -m ideal"), "take no time");
  EXPECT_THAT(
      line("gather.json -m hgx-h100x4-ib400"),
      testing::StartsWith("2 all-gathers among 16 workers on 2 nodes (from link speeds; the "
                          "profile has no table); "));
  EXPECT_THAT(line("gather.json -m dgx-a100x2-ib200"),
              testing::StartsWith(
                  "2 all-gathers among 16 workers on 2 nodes (from the profile's table); "));
  EXPECT_THAT(run("simulate ulysses.json -m hgx-h100 --path --no-chart").out,
              HasSubstr("  all-to-all  "));
  const std::string json = run("simulate ulysses.json -m hgx-h100 --format json").out;
  EXPECT_THAT(json,
              HasSubstr("{\"form\": \"all-to-all\", \"count\": 3, \"workers\": 4, \"nodes\": 1, "
                        "\"workers_per_node\": 4, \"bytes\": 786432, \"priced_by\": "
                        "\"collective\", \"source\": \"ai-dynamo/aiconfigurator 095f58a"));
  EXPECT_THAT(run("simulate gather.json -m dgx-a100x2-ib100 --format json").out,
              HasSubstr("\"priced_by\": \"links\"}"));
  EXPECT_EQ(run("simulate -m hgx-h100 --format json").out.find("\"exchanges\""), std::string::npos);
  const Outcome refused = run("export ulysses.json -m hgx-h100");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "ringsched: --format goal cannot express exchanges, and this plan has 3; add "
            "--exchanges direct\n");
}

TEST_F(SimulateProgram, MakesMessagesOfExchangesIfAsked) {
  const std::string ulysses = " -s ulysses -w 4 -t 4K --exchanges direct";
  const Outcome goal = run("export -m dgx-a100" + ulysses);
  EXPECT_EQ(goal.code, 0) << goal.err;
  EXPECT_THAT(goal.out, testing::StartsWith("num_ranks 4\n"));
  EXPECT_THAT(
      run("simulate -m dgx-a100" + ulysses).out,
      HasSubstr("exchanges        3 all-to-alls as direct messages; timed from link speeds\n"));
  EXPECT_THAT(run("simulate -m dgx-a100 --format json" + ulysses).out,
              HasSubstr("\"lowered_exchanges\": [\n    {\"form\": \"all-to-all\", \"count\": 3, "
                        "\"as\": \"direct\"}\n  ]"));
  // Three messages to each of the others, of three kinds of tensors.
  const Outcome plan = run("plan -o plan.json" + ulysses);
  EXPECT_THAT(plan.out, HasSubstr("36 sends, 36 receives"));
  EXPECT_THAT(plan.out, HasSubstr("exchanges 3 all-to-alls as direct messages\n"));
  EXPECT_THAT(run("plan -s ulysses -w 4 -t 4K --exchanges tree").out,
              HasSubstr("exchanges 3 all-to-alls as direct messages (these have no tree form)\n"));
  EXPECT_EQ(run("verify plan.json").code, 0);
  EXPECT_EQ(run("run plan.json --check --no-chart").code, 0);
  EXPECT_THAT(run("sweep -m dgx-a100 -w 4 -s all-gather -t 4K --exchanges ring").out,
              HasSubstr("schedule    --exchanges  makespan"));
  // Where there is nothing to make messages of, the header says so, and so does the picture.
  const Outcome none = run("simulate -m dgx-a100 -w 4 -s ring --exchanges tree --gantt x.svg");
  EXPECT_THAT(none.out, HasSubstr("exchanges tree (no effect: the plan has no collectives)\n"));
  EXPECT_THAT(read_all(folder_ / "x.svg"),
              HasSubstr("exchanges tree (no effect: the plan has no collectives)"));
  EXPECT_THAT(run("plan -w 4 -s ring --exchanges tree").out, HasSubstr("exchanges none\n"));
  const Outcome refused = run("plan -s ulysses --exchanges rings");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--exchanges is 'rings'; use native, direct, ring or tree"));
}

TEST_F(SimulateProgram, SaysWhatDoesNotFitADevice) {
  const std::string large = " -m dgx-a100 -w 8 -t 16M";
  EXPECT_THAT(run("simulate --no-chart -s all-gather" + large).out,
              HasSubstr(" does not fit: a device has 80 GiB\n"));
  EXPECT_THAT(run("simulate --format json -s all-gather" + large).out,
              HasSubstr("\"fits\": false,\n"));
  EXPECT_THAT(run("simulate --no-chart -m dgx-a100 -s all-gather").out,
              testing::Not(HasSubstr("fit")));
  EXPECT_THAT(run("simulate --format json -s ring -w 4").out, HasSubstr("\"fits\": null,\n"));
  const std::string rows = run("sweep -s all-gather" + large).out;
  EXPECT_THAT(rows, HasSubstr(" does not fit\n"));
  EXPECT_THAT(rows, testing::Not(HasSubstr("*"))) << "nothing fits, so nothing is the best";
  const std::string both = run("sweep -s all-gather,ring -m dgx-a100 -w 8 -t 11M").out;
  EXPECT_THAT(both, HasSubstr("*  ring"));
  EXPECT_LT(both.find("ring "), both.find("all-gather "));
}

TEST_F(SimulateProgram, RanksDecodingApartFromWholeSequences) {
  const std::string text = run("sweep -m dgx-a100 -w 8 -s flash-decode,ulysses --pass forward").out;
  EXPECT_THAT(text, HasSubstr("8 workers, 65,536 tokens, 1 new, 32 heads (8 kv) x 128"));
  EXPECT_THAT(text, HasSubstr("8 workers, 65,536 tokens, 32 heads (8 kv) x 128"));
  EXPECT_EQ(std::ranges::count(text, '*'), 2);
  EXPECT_THAT(run("sweep -m dgx-a100 -w 1 -s ring --pass both").out,
              testing::StartsWith("dgx-a100, 1 worker, 8,192 tokens, 32 heads (8 kv) x 128, bf16, "
                                  "causal, forward and backward\n"));
  const std::string csv = run("sweep -w 2 -s flash-decode,ring --format csv").out;
  EXPECT_THAT(csv, HasSubstr(",pass,new_tokens,conditions,schedule,overlap,exchanges,"));
  EXPECT_THAT(csv, HasSubstr(",forward,1,"));
  EXPECT_THAT(csv, HasSubstr(",forward,0,"));
}

TEST_F(SimulateProgram, DoesNotSimulateARingOfManyWorkersForComparison) {
  const std::string many = run("simulate -w 708 -s flash-decode --no-chart").out;
  EXPECT_THAT(many, testing::Not(HasSubstr("as fast as ring-decode")));
  EXPECT_THAT(run("simulate -w 8 -s flash-decode --no-chart").out,
              HasSubstr("as fast as ring-decode"));
  EXPECT_THAT(run("simulate -w 708 -s flash-decode --format json").out,
              HasSubstr("\"speedup_over_ring\": null,"));
}

TEST_F(SimulateProgram, HasTheNoiseOfTheMachine) {
  write("noisy.toml",
        "name = \"t\"\nsummary = \"t\"\nbase = \"laptop\"\n[noise]\nshare = 0.08\n"
        "source = \"x\"\n");
  const std::string of = "simulate -m noisy.toml -w 4 -t 4K --format json ";
  const Outcome usual = run(of);
  EXPECT_EQ(value(usual.out, "count"), 1001);
  // The report shows the median run and its seed.
  EXPECT_EQ(value(usual.out, "makespan_us"), value(usual.out, "p50_us"));
  const std::size_t at = usual.out.find("noise 8%, median run (seed ");
  ASSERT_NE(at, std::string::npos) << usual.out;
  const int seed = std::stoi(usual.out.substr(at + 27));
  EXPECT_EQ(value(run(of + fmt::format("--runs 1 --seed {}", seed)).out, "makespan_us"),
            value(usual.out, "makespan_us"));
  EXPECT_EQ(usual.out, run(of + "--noise 8% --runs 1001").out);
  const std::string quiet = run(of + "--noise 0").out;
  EXPECT_THAT(quiet, testing::Not(HasSubstr("noise")));
  write("quiet.toml", "name = \"t\"\nsummary = \"t\"\nbase = \"laptop\"\n");
  EXPECT_EQ(quiet, run("simulate -m quiet.toml -w 4 -t 4K --format json").out);
}

// Whichever seeds it begins with: else a prediction would be one of a draw.
TEST_F(SimulateProgram, HasAMiddleThatDoesNotDependOnTheSeeds) {
  for (const char* workers : {"1", "4"}) {
    std::vector<double> found;
    for (const char* seed : {"1", "5000", "10000", "15000"})
      found.push_back(value(run(fmt::format("simulate -m laptop -w {} -t 4K --noise 10% --seed {} "
                                            "--format json",
                                            workers, seed))
                                .out,
                            "makespan_us"));
    const auto [least, most] = std::minmax_element(found.begin(), found.end());
    EXPECT_LT(*most / *least, 1.02) << workers;
  }
}

TEST_F(SimulateProgram, SweepsUnderNoise) {
  write("noisy.toml",
        "name = \"t\"\nsummary = \"t\"\nbase = \"laptop\"\n[noise]\nshare = 0.08\n"
        "source = \"x\"\n");
  const std::string of = "sweep -w 4 -t 4K -s zigzag --format json -m ";
  const std::string alone = run("simulate -m noisy.toml -w 4 -t 4K -s zigzag --format json").out;
  EXPECT_EQ(value(run(of + "noisy.toml").out, "makespan_us"), value(alone, "makespan_us"));
  // Of several machines one may have no noise.
  EXPECT_EQ(run(of + "noisy.toml,laptop --runs 5").code, 0);
  EXPECT_THAT(run(of + "laptop --runs 5").err, HasSubstr("--runs 5: all runs would be identical"));
}

TEST_F(SimulateProgram, HasSlackThatIsNeverNegativeUnderAllConditions) {
  write("turns.toml",
        "name = \"t\"\nsummary = \"t\"\nbase = \"laptop\"\n[devices]\nworkers_each = 16\n"
        "concurrency = 2\nturns = true\nsource = \"x\"\n");
  for (const char* machine : {"dgx-a100", "turns.toml"})
    for (const char* schedule : {"ring", "balanced", "balanced-split"})
      for (const char* conditions : {"", "--noise 10%", "--slow-worker 1:2"}) {
        const std::string flags = fmt::format("simulate -m {} -s {} -w 5 -t 1000 --pass both {}",
                                              machine, schedule, conditions);
        const std::string json = run(flags + " --path --format json").out;
        const std::string key = "\"slack_us\": [";
        std::size_t at = json.find(key);
        ASSERT_NE(at, json.npos) << flags;
        std::istringstream list(json.substr(at + key.size(), json.find(']', at) - at - key.size()));
        std::size_t tasks = 0;
        for (double slack; list >> slack; list.ignore(1, ','), ++tasks) EXPECT_GE(slack, 0);
        EXPECT_TRUE(list.eof()) << flags;
        EXPECT_EQ(static_cast<double>(tasks), value(json, "tasks")) << flags;
        if (ringsched::kSanitized) break;
      }
}

TEST_F(SimulateProgram, SaysHowManyDevicesAreInUse) {
  const auto said = [&](const std::string& flags) {
    return run("simulate --no-chart -s zigzag -t 64K " + flags).out;
  };
  EXPECT_THAT(said("-m hgx-h100x4-ib400 -w 8"),
              testing::ContainsRegex("uses 8 of 32[ \n]+devices[ \n]+\\(--workers\\)"));
  EXPECT_THAT(said("-m hgx-h100x4-ib400 -w 32"), Not(HasSubstr("; uses")));
  EXPECT_THAT(said("-m dgx-a100 -w 4"), Not(HasSubstr("; uses")));
  write("shared.toml",
        "base = \"hgx-h100x4-ib400\"\nname = \"shared\"\nsummary = \"four nodes\"\n"
        "[devices]\nworkers_each = 2\nsource = \"a test\"\n");
  // Workers share devices only if there are more of them.
  EXPECT_THAT(said("-m shared.toml -w 32"), Not(HasSubstr("; uses")));
  EXPECT_THAT(said("-m shared.toml -w 64"), Not(HasSubstr("; uses")));
}

TEST_F(SimulateProgram, UsesEveryDeviceUnlessToldOtherwise) {
  const auto workers = [&](const std::string& flags) {
    const std::string out = run("simulate --no-chart -s zigzag -t 64K " + flags).out;
    return out.substr(0, out.find(" workers"));
  };
  EXPECT_EQ(workers(""), "zigzag: 8");
  EXPECT_EQ(workers("-m dgx-a100"), "zigzag: 8");
  EXPECT_EQ(workers("-m pcie-a100x4"), "zigzag: 4");
  EXPECT_EQ(workers("-m hgx-h100x4-ib400"), "zigzag: 32");
  EXPECT_EQ(workers("-m hgx-h100x4-ib400 -w 16"), "zigzag: 16");
  EXPECT_EQ(workers("-m laptop"), "zigzag: 8");  // one device, which many workers share
  const std::string sweep =
      run("sweep -s ring,zigzag -m pcie-a100x4,hgx-h100x4-ib400 --format csv").out;
  EXPECT_THAT(sweep, HasSubstr("pcie-a100x4,4,32768,"));
  EXPECT_THAT(sweep, HasSubstr("hgx-h100x4-ib400,32,262144,"));
  EXPECT_THAT(run("export --format workload -s ring -t 64K -m pcie-a100x4").out,
              HasSubstr("\nworkers 4\n"));
}

TEST_F(SimulateProgram, SweepsSayWhoseKernelsAndSoftwareTheyArePricedWith) {
  const auto end = [&](const std::string& flags) {
    const std::string out = run("sweep -s ring -w 2 -t 4K " + flags).out;
    return out.substr(out.find("\n\n") == out.npos ? out.size() : out.find("\n\n") + 2);
  };
  EXPECT_EQ(
      end("-m hgx-h100"),
      "These results for hgx-h100 assume cudnn kernels (to change: --kernels fa2 or fa3) and "
      "no distributed-attention library: the host takes no time (to change: --software NAME).\n");
  EXPECT_EQ(end("-m hgx-h100 --kernels fa2"),
            "These results for hgx-h100 assume no distributed-attention library: the host takes no "
            "time (to change: --software NAME).\n");
  EXPECT_EQ(end("-m hgx-h100 --software fused"),
            "These results for hgx-h100 assume cudnn kernels (to change: --kernels fa2 or fa3).\n");
  EXPECT_EQ(end("-m hgx-h100 --kernels fa3 --software fused"), "");
  EXPECT_EQ(end("-m ideal"), "");
}

// A schedule with several rows, one for each --overlap, is named once.
TEST_F(SimulateProgram, SweepsNameOnceWhoIsExtrapolated) {
  const std::string out =
      run("sweep -m hgx-h100x4-ib400 -w 32 -s ulysses,zigzag --overlap none,prefetch").out;
  const std::size_t at = out.find("   Some ");
  ASSERT_NE(at, out.npos);
  EXPECT_THAT(
      out.substr(at),
      testing::StartsWith("   Some task times of ulysses are extrapolated beyond measurements; "));
}

// Of --overlap and the 80% interval: each is shown where there is something to tell.
TEST_F(SimulateProgram, SweepsShowTheColumnsThatTellSomething) {
  const auto heading = [&](const std::string& flags) {
    const std::string out = run("sweep -s ring,zigzag -w 4 -t 8K " + flags).out;
    return out.substr(0, out.find('*'));
  };
  EXPECT_THAT(heading("-m dgx-a100"),
              AllOf(Not(HasSubstr("--overlap")), HasSubstr("80% interval")));
  EXPECT_THAT(heading("-m dgx-a100 --overlap none"), HasSubstr(", forward, --overlap none\n"));
  EXPECT_THAT(heading("-m dgx-a100 --overlap none,prefetch"), HasSubstr("schedule  --overlap  "));
  EXPECT_THAT(heading("-m ideal"), Not(HasSubstr("interval")));
  // The interval is the one that the CSV has.
  const std::string text = run("sweep -m dgx-a100 -w 8 -t 64K -s ring").out;
  const std::string json = run("sweep -m dgx-a100 -w 8 -t 64K -s ring --format json").out;
  EXPECT_THAT(text,
              HasSubstr(fmt::format("{:.1f} to {:.1f} ms", value(json, "interval_low_us") / 1e3,
                                    value(json, "interval_high_us") / 1e3)));
}

// Where tasks are so short that a host would count, a prediction without one says so.
TEST_F(SimulateProgram, SaysThatItsHostTakesNoTime) {
  const auto says = [&](const std::string& flags) {
    return run("simulate --no-chart -s zigzag " + flags).out.find("assumed to take no time") !=
           std::string::npos;
  };
  EXPECT_TRUE(says("-m dgx-a100 -t 4K"));
  EXPECT_FALSE(says("-m dgx-a100 -t 64K"));
  EXPECT_FALSE(says("-m dgx-a100 -t 4K --software ring-flash-attention"));
  EXPECT_FALSE(says("-m laptop -w 4 -t 4K"));
  EXPECT_FALSE(says("-w 8"));
}

TEST_F(SimulateProgram, RanksNothingWhereNothingFits) {
  const Outcome o = run("sweep -m dgx-a100 -w 16");
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.out, testing::ContainsRegex("16[ \n]+workers[ \n]+do[ \n]+not[ \n]+fit"));
}

TEST_F(SimulateProgram, GivesTheSameBytesEachTime) {
  const std::string flags =
      "simulate -m hgx-h100x4-ib400 -w 12 -s balanced --noise 3% --runs 50 --format json";
  EXPECT_EQ(run(flags).out, run(flags).out);
}

TEST_F(SimulateProgram, TakesUpASweepWhereItWasInterrupted) {
  const std::string sweep =
      "sweep -m dgx-a100 -w 2,4,8 -s ring,striped,zigzag,balanced,balanced-split -o all.csv "
      "--format csv";
  const std::string once = run(sweep).out;
  EXPECT_EQ(read_all(folder_ / "all.csv"), once);
  // What an interruption leaves: some rows, the last of them cut off.
  std::filesystem::remove(folder_ / "all.csv");
  std::size_t at = 0;
  for (int line = 0; line < 6; ++line) at = once.find('\n', at) + 1;
  write("all.csv.partial", once.substr(0, at + 20));
  EXPECT_EQ(run(sweep).out, once);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "all.csv.partial"));
  // Rows that others asked for stay, and are not printed. A row that cannot be is refused.
  EXPECT_THAT(run("sweep -m dgx-a100 -w 2 -s ring -o all.csv --format csv").out,
              Not(HasSubstr(",zigzag,")));
  std::string wrong = once;
  wrong.replace(wrong.find(",ring,prefetch,native,") + 22, 1, "-");
  write("wrong.csv", wrong);
  EXPECT_THAT(run("sweep -m dgx-a100 -w 2 -s ring -o wrong.csv").err,
              HasSubstr("expected a positive number"));
  EXPECT_THAT(run("sweep -m dgx-a100 -w 3 -s ring -o all.csv").out,
              HasSubstr("16 rows in all.csv, 1 new"));
  EXPECT_EQ(read_all(folder_ / "all.csv").size(), once.size() +
                                                      run("sweep -m dgx-a100 -w 3 -s ring "
                                                          "--format csv")
                                                          .out.size() -
                                                      once.find('\n') - 1);
  // Whoever changes a machine of his own asks another question.
  write("m.toml", run("machines dgx-a100").out);
  const auto own = [&] { return run("sweep -m m.toml -w 4 -s ring -o own.csv --format csv").out; };
  const std::string first = own();
  std::string slower = run("machines dgx-a100").out;
  slower.insert(slower.find("us = ") + 5, "9");
  write("m.toml", slower);
  EXPECT_NE(own(), first);
  std::string damaged = first;
  damaged.insert(damaged.rfind(",prefetch,native,") + 17, "}x{");
  write("own.csv", damaged);
  EXPECT_THAT(run("sweep -m m.toml -w 4 -s ring -o own.csv").err, HasSubstr("expected a number"));
  for (const char* name : {"x.svg", "x.json", "x", "/dev/full"}) {
    const Outcome o = run(std::string("sweep -w 2 -s ring -o ") + name);
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err,
                HasSubstr(std::string("--output ") + name + ": use a name that ends in .csv"));
    EXPECT_FALSE(std::filesystem::is_regular_file(folder_ / name));
  }
  EXPECT_EQ(run("sweep -w 2 -o -").code, 2);
  // Two at once would lose the rows of one.
  const int other = ::open((folder_ / "two.csv.partial").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_THAT(run("sweep -w 2 -s ring -o two.csv").err, HasSubstr("another sweep is writing"));
  ::close(other);
  EXPECT_EQ(run("sweep -w 2 -s ring -o two.csv").code, 0);
  write("foreign.csv", "a,b\n1,2\n");
  EXPECT_EQ(run("sweep -o foreign.csv").code, 2);
  EXPECT_EQ(read_all(folder_ / "foreign.csv"), "a,b\n1,2\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "foreign.csv.partial"));
}

TEST_F(SimulateProgram, SweepsTheSameWhateverTheNumberOfThreads) {
  const std::string sweep =
      "sweep -m dgx-a100 -w 2,3,8 -s all --noise 5% --runs 25 --format csv -j ";
  EXPECT_EQ(run(sweep + "1").out, run(sweep + "5").out);
}

// All schedules include hybrids with balanced rings, as their plain ones would speak against them.
TEST_F(SimulateProgram, SweepsHybridsWithPlainAndWithBalancedRings) {
  const auto names = [&](const std::string& flags) {
    const std::string csv = run("sweep -w 4 --heads 2 --kv-heads 2 --format csv " + flags).out;
    EXPECT_THAT(csv, HasSubstr(",usp,"));
    return csv;
  };
  EXPECT_THAT(names(""), HasSubstr(",usp:ring=zigzag,"));
  EXPECT_THAT(names("--mask full"), Not(HasSubstr("usp:ring=zigzag")));
  // Inside one node, rings have no rings around them.
  const auto double_rings = [&](const std::string& flags) {
    return run("sweep -t 4K --format csv " + flags).out;
  };
  const std::string nodes = "-m hgx-h100x4-ib400 ";
  EXPECT_THAT(double_rings("-w 8"), Not(HasSubstr("double-ring:")));
  EXPECT_THAT(double_rings(nodes + "-w 8"), Not(HasSubstr("double-ring:")));
  EXPECT_THAT(double_rings(nodes + "-w 16"), HasSubstr(",double-ring:ring=zigzag,"));
  EXPECT_THAT(double_rings(nodes + "-w 16 --mask full"), Not(HasSubstr("double-ring:")));
}

// Schedules that make the same plan share their draws: chance must not rank them.
TEST_F(SimulateProgram, RanksSchedulesOfOnePlanAlike) {
  const auto wins = [](const std::string& table, const std::string& schedule) {
    std::istringstream row(table.substr(table.find("\n   " + schedule + " ")));
    std::string name, time, unit, low, to, high, ratio, share;
    row >> name >> time >> unit >> low >> to >> high >> unit >> ratio >> share;
    return share;
  };
  const std::string beaten = run("sweep -m pcie-4090x8 -t 64K -s zigzag,ulysses,usp").out;
  EXPECT_EQ(wins(beaten, "ulysses"), wins(beaten, "usp")) << beaten;
  EXPECT_THAT(wins(beaten, "usp"), testing::EndsWith("%")) << beaten;
  const std::string best = run("sweep -m hgx-h100 -t 64K -s ulysses,zigzag,usp").out;
  EXPECT_EQ(wins(best, "usp"), "same") << best;
}

// Figures may change in a file that a profile builds on, or in the library's.
TEST_F(SimulateProgram, SweepsAgainIfAnyFigureChanges) {
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  };
  const auto makespan = [&](const std::string& flags) {
    const std::string json = run("sweep -s zigzag -t 64K --format json -o kept.csv " + flags).out;
    return value(json, "makespan_us");
  };
  const std::string base = run("machines show hgx-h100").out;
  const std::size_t at = base.find("channel_gb_per_s = ");
  ASSERT_NE(at, base.npos);
  write("base.toml", base);
  write("mine.toml", "name = \"mine\"\nsummary = \"m\"\nbase = \"base.toml\"\n");
  const double before = makespan("-m mine.toml");
  EXPECT_EQ(makespan("-m mine.toml"), before);
  std::string slow = base;
  write("base.toml", slow.replace(at, base.find('\n', at) - at, "channel_gb_per_s = 5"));
  EXPECT_GT(makespan("-m mine.toml"), 1.2 * before);
  const std::string host = "[host]\npost_us = 5\nsource = \"x\"\n";
  write("library.toml", "[software]\nsource = \"x\"\n" + host);
  const double quick = makespan("-m hgx-h100 --software library.toml");
  write("library.toml", "[software]\nsource = \"x\"\n[host]\npost_us = 5000\nsource = \"x\"\n");
  EXPECT_GT(makespan("-m hgx-h100 --software library.toml"), 2 * quick);
}

TEST_F(SimulateProgram, SaysWhatASweepExtrapolates) {
  const std::string flags = "sweep -m pcie-4090x8 -t 64K -s zigzag,ulysses ";
  EXPECT_THAT(
      run(flags).out,
      HasSubstr("\n   Some task times of all schedules are extrapolated beyond measurements; "
                "'ringsched simulate' lists them.\n"));
  EXPECT_THAT(run("sweep -m hgx-h100 -t 128K -s zigzag,ulysses").out,
              HasSubstr("\n   Some task times of ulysses are extrapolated beyond measurements; "
                        "'ringsched simulate' lists them.\n"));
  EXPECT_THAT(run(flags + "--format json").out,
              HasSubstr("\"extrapolated\": \"all-to-all (from link speeds, and machines with PCIe "
                        "differ by a factor of 2); forward attends of "
                        "more tokens than the "
                        "2048 measured\""));
  EXPECT_THAT(run("sweep -m dgx-a100 -t 128K -s ring").out, Not(HasSubstr("extrapolated")));
}

TEST_F(SimulateProgram, ComparesTimelinesAndFailsPastATolerance) {
  ASSERT_EQ(run("simulate -m dgx-a100 --timeline a.json").code, 0);
  ASSERT_EQ(run("simulate -m dgx-a100 --slow-worker 7:1.5 --timeline b.json").code, 0);
  EXPECT_EQ(run("compare a.json a.json --tolerance 0").code, 0);
  const std::string words = run("compare a.json b.json").out;
  EXPECT_THAT(words, HasSubstr("receive of keys and values"));
  EXPECT_THAT(words, Not(HasSubstr("key_value")));
  const Outcome apart = run("compare a.json b.json --tolerance 5%");
  EXPECT_EQ(apart.code, 1);
  EXPECT_THAT(apart.out, HasSubstr("OUTSIDE the tolerance of 5%"));
  EXPECT_EQ(run("compare a.json b.json --tolerance 200%").code, 0);
  EXPECT_EQ(run("compare a.json b.json").code, 0);
}

TEST_F(SimulateProgram, SaysToWhatTheLibraryFillsUpAHeadDimension) {
  const auto with = [&](const std::string& dim) {
    const std::string out =
        run("simulate --no-chart -m hgx-h100 --kernels fa2 --head-dim " + dim).out;
    const std::size_t at = out.find("\nwith ");
    return out.substr(at + 1, out.find('\n', at + 1) - at - 1);
  };
  EXPECT_EQ(with("64"), "with kernels fa2");
  EXPECT_EQ(with("40"), "with kernels fa2; head dimension 40 filled up to 64, as the library does");
  EXPECT_EQ(
      with("72"),
      "with kernels fa2; head dimension 72 filled up to 96, as the library does; kernel times "
      "derived from those of head dimension 128: the profile has none for 96");
}

// Documents say how many tokens there are.
TEST_F(SimulateProgram, TakesTheTokensOfDocuments) {
  for (const char* command : {"simulate --no-chart", "sweep"})
    EXPECT_THAT(run(fmt::format("{} -w 3 --mask documents:1001,2003,777", command)).out,
                HasSubstr(" 3 workers, 3,781 tokens, "));
  EXPECT_THAT(run("simulate -w 3 --mask documents:10,20 --tokens 31").err,
              HasSubstr("documents add up to 30 tokens, but --tokens is 31"));
}

// Times of different things have an order, but no difference.
TEST_F(SimulateProgram, ComparesNoTimesWhereOnlyTheOrderCounts) {
  const std::string out = run("validate --only 'PixArt, 4096 pixels on 16 x L40' --rows").out;
  EXPECT_THAT(out, testing::ContainsRegex("55\\.2 +[0-9.]+ +[0-9.]+ to [0-9.]+ +- +- +order only"));
  EXPECT_THAT(run("validate --only 'WLB-LLM, 4 x H100, zigzag of the whole pack, 16' --rows").out,
              HasSubstr(" 1,024 documents of 64 "));
}

TEST_F(SimulateProgram, ValidatesOnlySomeGroups) {
  const Outcome burst = run("validate --only burst --format csv");
  EXPECT_EQ(burst.code, 0) << burst.err;
  EXPECT_THAT(burst.out, HasSubstr("BurstAttention"));
  EXPECT_THAT(burst.out, testing::Not(HasSubstr("UltraAttn")));
  const std::string notes = "\nnotes: one kernel\n";
  EXPECT_THAT(run("validate --only gist --rows").out, HasSubstr(notes));
  EXPECT_THAT(run("validate --only gist").out, testing::Not(HasSubstr("notes:")));
}

TEST_F(SimulateProgram, ValidatesMeasurementsOfAUser) {
  write("mine.toml", R"([[group]]
name = "my ring"
quantity = "iterations_per_s"
machine = "dgx-a100"
problem = { workers = 8, heads = 32 }
results = [
  { tokens = 65536, schedule = "ring", published = 20 },
  { tokens = 65536, schedule = "zigzag", published = 30 },
]
)");
  const Outcome text = run("validate --file mine.toml");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              testing::ContainsRegex(
                  "^2 results: median error [0-9.]+%, mean [0-9.]+%\n"
                  "worst: too (short|long) by a factor of [0-9.]+ [(]my ring, (ring|zigzag)[)]\n"));
  EXPECT_THAT(text.out, HasSubstr("picked the faster of two schedules in 1 of 1 cases (without "
                                  "predicted ties: 1 of 1)\n"));
  EXPECT_EQ(run("validate --file - < mine.toml").code, 0);

  const Outcome json = run("validate --file mine.toml --format json");
  for (const char* told : {"\"source\": \"mine.toml\"", "\"unit\": \"iterations/s\"",
                           "\"published\": 20", "\"difference\": ", "\"median_error\": "})
    EXPECT_THAT(json.out, HasSubstr(told));

  const Outcome page = run("validate --file mine.toml --format markdown");
  EXPECT_THAT(page.out, testing::StartsWith(
                            "# Predictions against the measurements of mine.toml\n\n**2 results"));
  EXPECT_THAT(page.out, testing::Not(HasSubstr("](")));
  EXPECT_THAT(page.out, testing::Not(HasSubstr("Left out")));
  std::string named = read_all(folder_ / "mine.toml");
  write("named.toml", named.replace(named.find("my ring"), 7, "a | b"));
  EXPECT_THAT(run("validate --file named.toml --format markdown").out,
              HasSubstr("\n| a \\| b | 2 | "));

  const Outcome within = run("validate --file mine.toml --tolerance 500%");
  EXPECT_EQ(within.code, 0);
  EXPECT_THAT(within.out, testing::EndsWith("\nmean error within the tolerance of 500%\n"));
  const Outcome outside = run("validate --file mine.toml --tolerance 0");
  EXPECT_EQ(outside.code, 1);
  EXPECT_THAT(outside.out, testing::EndsWith("\nmean error OUTSIDE the tolerance of 0%\n"));

  EXPECT_EQ(run("validate --file mine.toml --only 'MY Ring'").out, text.out);
  EXPECT_EQ(run("validate --file mine.toml --only DGX-a100").out, text.out);
  const Outcome none = run("validate --file mine.toml --only h100");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err,
            "ringsched: --only 'h100' matches no group, source or machine; 'ringsched validate "
            "--groups' lists "
            "the groups\n");
  std::string based = read_all(folder_ / "mine.toml");
  based.replace(based.find("\"dgx-a100\""), 10,
                "'''\nname = \"ours\"\nsummary = \"ours\"\nbase = \"dgx-a100\"\n'''");
  write("based.toml", based);
  EXPECT_EQ(run("validate --file based.toml --only DGX-a100 --format csv").code, 0);
  EXPECT_EQ(run("validate --file based.toml --only OURS --format csv").code, 0);

  std::string ideal = read_all(folder_ / "mine.toml");
  ideal.replace(ideal.find("dgx-a100"), 8, "ideal");
  write("mine.toml", ideal);
  EXPECT_THAT(run("validate --file mine.toml").err, HasSubstr("counts blocks, not time"));
  write("mine.toml", "[[group]]\nname = 3\n");
  const Outcome wrong = run("validate --file mine.toml");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err, "ringsched: mine.toml:1: group.quantity is missing; given is name\n");
  EXPECT_EQ(run("validate --file none.toml").code, 2);
}

}  // namespace
