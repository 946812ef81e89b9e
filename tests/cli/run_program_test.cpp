// Plans executed by the program: its output and exit codes. Processes and their deaths are in
// tests/mpi_test.py and tests/run_failure_test.py.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/program.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class RunProgram : public ProgramTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void expect_refused(const std::string& arguments, const std::string& why, int code = 2) const {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, code) << arguments;
    EXPECT_EQ(o.out, "") << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr(why)) << arguments;
  }
};

TEST_F(RunProgram, SaysAtLengthWhatItAlwaysSaid) {
  expect_golden("run_help.txt", run("run --help").out);
  expect_golden("calibrate_help.txt", run("calibrate --help").out);
  expect_golden("bench_links_help.txt", run("bench-links --help").out);
}

TEST_F(RunProgram, ChecksItsNumbersForEverySchedule) {
  for (const Schedule& known : schedules())
    for (const char* rest : {"--dtype fp32 --pass both", "--dtype bf16", "--pass backward"}) {
      const std::string schedule(known.name);
      const Outcome o =
          run("run -w 4 -t 250 --heads 4 --kv-heads 2 --head-dim 32 --repeat 1 --check -s " +
              schedule + " " + rest);
      EXPECT_EQ(o.code, 0) << o.err << o.out;
      EXPECT_THAT(o.out, HasSubstr("measured\n")) << schedule;
      EXPECT_THAT(o.out, HasSubstr("  good\n")) << schedule;
      EXPECT_THAT(o.out, HasSubstr("worker 3")) << schedule;
      if (kSanitized) break;  // EveryScheduleForReal sees the rest in one process
    }
}

TEST_F(RunProgram, RunsExchangesAndChecksRoundedResults) {
  write("ulysses.json", write_plan(ulysses_by_hand(small_problem(2, 90, Pass::Both))));
  const Outcome o = run("run ulysses.json --repeat 1 --check --check-finite");
  EXPECT_EQ(o.code, 0) << o.err << o.out;
  for (const char* name : {"output", "query gradient", "key gradient", "value gradient"})
    EXPECT_THAT(o.out,
                ContainsRegex(std::string(name) + ", rounded to bf16  all (360|180) .* good"));
  EXPECT_THAT(o.out, Not(HasSubstr("log-sum-exp")));
}

TEST_F(RunProgram, RefusesOnGpusWhatNoKernelThereDoes) {
  const Problem p = small_problem(2, 60);
  write("ulysses.json", write_plan(ulysses_by_hand(p)));
  expect_refused(
      "run ulysses.json --backend cuda",
      "--backend cuda does not support exchanges (collectives), whatever --exchanges says, "
      "and the first such task of the plan is task 0 "
      "(worker 0, step 0, "
      "exchange of query chunks 0-1); use --backend cpu\n");
  write("heads.json", write_plan(by_half_the_heads(build_plan(p, find_schedule("ring")))));
  expect_refused("run heads.json --backend cuda",
                 "--backend cuda does not support tasks of some heads, and the first such task of "
                 "the plan is task "
                 "0 (worker 0");
  // More processes than one would use NCCL, which is for GPUs alone.
  expect_refused("run -w 2 -s tree-decode --backend cuda",
                 "--backend cuda does not decode, but the plan has 1 new token; use --backend cpu");
  expect_refused("run ulysses.json --transport nccl", "--transport nccl needs --backend cuda");
}

TEST_F(RunProgram, WritesWhatItMeasuredBesideThePrediction) {
  const std::string flags = "run -w 3 -t 240 --heads 2 --head-dim 16 -m laptop ";
  const Outcome o =
      run(flags + "--timeline t.json --gantt g.svg --block-map b.svg --trace t2.json");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("the prediction is"));
  EXPECT_THAT(o.out, HasSubstr("(median of 3 runs, which took "));
  EXPECT_THAT(read_all(folder_ / "t.json"), HasSubstr("\"source\": \"measured\""));
  const std::string chart = read_all(folder_ / "g.svg");
  EXPECT_THAT(chart, HasSubstr(">predicted<"));
  EXPECT_THAT(chart, HasSubstr(">measured<"));
  // The same plan, so that tasks are compared one by one.
  run("simulate -w 3 -t 240 --heads 2 --head-dim 16 -m laptop --timeline p.json");
  EXPECT_THAT(run("compare p.json t.json").out, HasSubstr("tasks that differ most"));
  const Outcome json = run(flags + "--check --format json");
  for (const char* key : {"\"makespan_us\"", "\"runs_us\"", "\"predicted\"", "\"check\"",
                          "\"by_worker\"", "\"memory_bytes\""})
    EXPECT_THAT(json.out, HasSubstr(key));
}

TEST_F(RunProgram, RefusesInstructionsThatThereAreNotInOneLine) {
  ::setenv("RINGSCHED_CPU", "avx1024", 1);
  const std::string why = "RINGSCHED_CPU is 'avx1024', not one of portable, avx2, ";
  expect_refused("run -w 2", why);
  expect_refused("calibrate -o p.toml", why);
  ::unsetenv("RINGSCHED_CPU");
}

TEST_F(RunProgram, HasAWorkerForEachCoreByDefault) {
  const unsigned workers = std::clamp(usable_cores(), 2u, 16u);
  const Outcome o = run("run -t 320 --heads 2 --head-dim 8 --repeat 1");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, testing::StartsWith(fmt::format("balanced: {} workers, 320 tokens", workers)));
  if (usable_cores() >= 2) {
    EXPECT_THAT(o.out, testing::Not(HasSubstr("waiting for a core")));
  }
  EXPECT_THAT(run("run -w 40 -t 320 --heads 2 --head-dim 8 --repeat 1").out,
              HasSubstr(fmt::format("(40 workers share {} core", usable_cores())));
}

TEST_F(RunProgram, TakesPlansFromFiles) {
  ASSERT_EQ(run("plan -w 3 -t 99 --heads 2 --head-dim 8 --overlap none -o p.json").code, 0);
  const Outcome o = run("run p.json --check --repeat 1");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("99 tokens"));
  expect_refused("run p.json -w 3", "leave out");
}

TEST_F(RunProgram, ExitsWithOneWhereNumbersAreWrongAndWithThreeWhereTheRunFails) {
  const std::string flags = "run -w 3 -t 60 --heads 2 --head-dim 8 --repeat 1 --no-chart ";
  const Outcome wrong = run(flags + "--inputs nan --check");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.out, HasSubstr("WRONG, worst at token"));
  expect_refused(flags + "--inputs nan --check-finite", "not finite", 3);
  const std::string tokens = kSanitized ? "32K" : "128K";  // which makes their inputs slowly, too
  expect_refused(
      "run -w 2 -t " + tokens + " --heads 1 --head-dim 64 --mask full --dtype fp32 --deadline 3",
      "not finished after 3.00 s", 3);
}

// Nobody plans for nine million tasks in a second.
TEST_F(RunProgram, EndsAtTheDeadlineBeforeItHasBegun) {
  expect_refused("run -w 3000 -s ring -t 3000 --heads 1 --head-dim 1 --mask full --deadline 1",
                 "stopped after 1 s (--deadline) while making and proving the plan", 3);
}

TEST_F(RunProgram, SaysWhatItsTensorsNeedWhereTheMachineHasLess) {
  expect_refused("run -w 2 -t 1000M --heads 64 --dtype fp32", "of memory is available", 3);
}

TEST_F(RunProgram, SaysWhatItMeasuredThoughAFileCannotBeWritten) {
  for (const char* format : {"text", "json"}) {
    const Outcome o = run(
        fmt::format("run -w 1 -t 1 --heads 1 --timeline /dev/full --no-chart --format {}", format));
    EXPECT_EQ(o.code, 3);
    EXPECT_THAT(o.out, HasSubstr("makespan"));
    EXPECT_THAT(o.err, HasSubstr("cannot write /dev/full: No space left on device"));
  }
}

TEST_F(RunProgram, RefusesWhatMakesNoSense) {
  expect_refused("run --machine ideal", "--machine ideal counts in blocks");
  expect_refused("calibrate -o x.toml --cores 100000", "--cores is 100000; use 0 to ");
  expect_refused("run --transport pigeon", "(use local, tcp, mpi or nccl)");
  for (const std::string alone : {"--transport tcp", "--transport mpi", "--master localhost:1"})
    for (const char* command : {"run", "calibrate -o my.toml", "bench-links"})
      // AddressSanitizer's dlopen does not find modules by the path in the program.
      expect_refused(fmt::format("{} {}", command, alone),
                     kSanitized && alone == "--transport mpi" ? "the mpi transport is not available"
                                                              : "this is the only one");
  expect_refused("run --rank 0 --ranks 99999999999", "use 1 to ");
  expect_refused(
      "run --rank 1",
      "give both --rank (index of this process) and --ranks (number of processes), or neither");
  expect_refused("run --rank 2 --ranks 2 --master localhost:1",
                 "--rank is 2; with --ranks 2 use 0 or 1");
  expect_refused("run --rank 1 --ranks 2",
                 "--ranks asks for 2 processes, but the address of rank 0 is not set");
  expect_refused("run --rank 1 --ranks 2 --master localhost", "'; use HOST:PORT, with a");
  expect_refused("run --rank 3 --ranks 2 --master localhost:1",
                 "--rank is 3; with --ranks 2 use 0 or 1");
  expect_refused("run --rank 3 --ranks 3 --master localhost:1",
                 "--rank is 3; with --ranks 3 use 0 to 2");
  expect_refused("run --repeat 0", "1 to 10000");
  expect_refused("run --inputs odd", "inputs");
  expect_refused("run --check-rows 5", "--check-rows needs --check");
  expect_refused("run --check-rows 0 --check", "1 to 1000000000");
  expect_refused("run --gantt g.txt", "use a name that ends in");
  expect_refused("run --deadline 0", "1 to");
  expect_refused("calibrate -o my.json", ".toml");
  expect_refused("calibrate -o gone/my.toml", "no such folder: gone");
  expect_refused("run -w 2 -t 64 --timeline /proc/t.json", "cannot write /proc/t.json");
  expect_refused("calibrate", "--output is required");
  expect_refused("calibrate --backend tpu -o my.toml", "(use cpu or cuda)");
  expect_refused("calibrate --workers 2 -o my.toml", "--backend cuda");
  expect_refused("calibrate --backend cuda --cores 2 -o my.toml", "--backend cpu");
  expect_refused("calibrate --head-dim 0 -o my.toml", "1 to 4096");
  expect_refused("calibrate --take slowest -o my.toml", "(use mean or fastest)");
  expect_refused("calibrate --backend cuda --take mean -o my.toml",
                 "--take is only for --backend cpu");
  expect_refused("calibrate --backend cuda --timeout 1 -o my.toml",
                 "--timeout is only for --backend cpu");
  for (const char* seconds : {"0", "nan", "-1", "1s", "1e9"})
    expect_refused(fmt::format("calibrate --timeout {} -o my.toml", seconds),
                   fmt::format("--timeout is '{}'; use 0.001 to 3600 seconds", seconds));
  expect_refused("calibrate --name \"$(printf 'a\\nb')\" -o my.toml", "one line of plain text");
  expect_refused("calibrate --dtype fp32,bf16,fp32 -o my.toml", "--dtype lists fp32 twice");
  expect_refused("calibrate --head-dim 1024,1K -o my.toml", "--head-dim lists 1K twice");
  expect_refused("run --backend gpu", "(use cpu or cuda)");
  expect_refused("run --software ring-flash-attention",
                 "--software ring-flash-attention needs --machine");
  expect_refused("run --nccl-ctas 4", "--nccl-ctas");
  expect_refused("run --graph", "--backend cuda");
}

// Without a GPU, or without what it takes to use one, that is all there is to say.
TEST_F(RunProgram, SaysInOneLineThatThereIsNoGpu) {
  const Outcome o = run("run --backend cuda -w 1 -t 64 --heads 1 --no-chart");
  if (o.code == 0) GTEST_SKIP() << "there is one";
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_EQ(o.out, "");
  const bool absent = o.err.find("the cuda backend is not available") != o.err.npos;
  EXPECT_EQ(o.code, absent ? 2 : 3) << o.err;
  EXPECT_TRUE(absent || o.err.find("GPU") != o.err.npos || o.err.find("driver") != o.err.npos)
      << o.err;
  if (!absent) expect_refused("run --backend cuda --head-dim 512", "use at most 256");
  const Outcome c = run("calibrate --backend cuda -o my.toml");
  EXPECT_EQ(c.code, absent ? 2 : 3) << c.err;
}

TEST_F(RunProgram, MeasuresMessagesBySize) {
  const Outcome text = run("bench-links -b 1 -e 64K -f 16 -n 3 -w 1");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              HasSubstr("# local, 1 process, workers as threads: each sends to the next"));
  EXPECT_THAT(text.out, HasSubstr("#        size        time     algbw     busbw    #wrong\n"));
  EXPECT_THAT(text.out, HasSubstr("\n        65536"));
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n') -
                (text.out.find(" timings did not settle") != std::string::npos ? 2 : 0),
            2 * (3 + 5) + 1);
  const Outcome json = run("bench-links -b 100 -e 100 -n 2 --format json");
  EXPECT_EQ(json.code, 0) << json.err;
  for (const char* key : {"\"transport\": \"local\"", "\"sendrecv\": [", "\"alone\": [",
                          "\"bytes\": 100", "\"time_us\"", "\"wrong\": 0, \"settled\": "})
    EXPECT_THAT(json.out, HasSubstr(key));
  expect_refused("bench-links -b 8 -e 4", "less than --minbytes");
  expect_refused("bench-links -f 1", "use 2 to");
  expect_refused("bench-links -n 0", "use 1 to");
  expect_refused("bench-links --nccl-ctas 2", "needs --transport nccl");
  expect_refused("bench-links --transport pigeon", "(use local, tcp, mpi or nccl)");
}

TEST_F(RunProgram, MeasuresAMachineThatThenPredicts) {
  if (kSanitized) GTEST_SKIP() << "the test calibrate does the same with processes";
  const Outcome o = run("calibrate -o my.toml --max-tokens 64 --timeout 0.01 --name mine");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("profile    my.toml"));
  const std::string profile = read_all(folder_ / "my.toml");
  EXPECT_EQ(profile.find("\n[noise]\nshare = 0.") != std::string::npos, usable_cores() > 1);
  EXPECT_THAT(profile, HasSubstr("made_by = \"ringsched calibrate --dtype bf16,fp32 --head-dim 128 "
                                 "--max-tokens 64 --pass both\"\n"));
  // What `run` needs with its usual flags, and with others that it is often given.
  for (const char* flags : {"", "--dtype fp32 --pass both", "--mask full -w 2 -s ring"}) {
    const Outcome prediction = run(fmt::format("simulate -m my.toml {}", flags));
    EXPECT_EQ(prediction.code, 0) << prediction.err;
    EXPECT_THAT(prediction.out, HasSubstr("on mine: "));
  }
}

TEST_F(RunProgram, SaysByWhichFlagAProfileWouldHaveWhatItLacks) {
  const Outcome o =
      run("calibrate -o my.toml --max-tokens 64 --timeout 0.01 --dtype bf16 --head-dim 16 --pass "
          "forward");
  ASSERT_EQ(o.code, 0) << o.err;
  for (const auto& [flags, remedy] :
       {std::pair{"--dtype fp32",
                  "; measure it again with --dtype bf16,fp32 (it was made by: "
                  "ringsched calibrate --dtype bf16 --head-dim 16 "},
        {"--pass both",
         "no backward kernel times for bf16, only for none; measure it "
         "again with --dtype bf16 --pass both ("},
        {"--pass backward --dtype fp16", "measure it again with --dtype bf16,fp16 --pass both ("}})
    for (const char* command : {"simulate -w 2", "run -w 2 -t 64 --heads 1"})
      expect_refused(fmt::format("{} -m my.toml {}", command, flags), remedy);
  // Nobody can measure a machine again that is not there.
  const Outcome other = run("simulate -m dgx-a100 --dtype fp32");
  EXPECT_THAT(other.err, testing::Not(HasSubstr("again")));
}

}  // namespace
}  // namespace ringsched
