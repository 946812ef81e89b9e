// The program as a user sees it: what it prints, where, and its exit codes.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringsched/scheduler/schedule.hpp"
#include "support/cases.hpp"
#include "support/program.hpp"

namespace {

using testing::HasSubstr;
using testing::StartsWith;

using ringsched::expect_golden;
using ringsched::Outcome;
using ringsched::program_path;
using ringsched::read_all;

class Program : public ringsched::ProgramTest {};

TEST_F(Program, SaysAtLengthWhatItAlwaysSaid) {
  for (const auto& [golden, arguments] : std::initializer_list<std::pair<const char*, const char*>>{
           {"help.txt", "--help"},
           {"plan_help.txt", "plan --help"},
           {"verify_help.txt", "verify --help"},
           {"import_help.txt", "import --help"},
           {"plan_balanced_8.txt", "plan --workers 8 --schedule balanced"},
           {"plan_split_4_both.txt", "plan -w 4 -s balanced-split --pass both --kv-heads 32"},
           {"plan_zigzag_3.json", "plan -w 3 -s zigzag --format json"},
           {"plan_ring_64.txt", "plan -w 64 -s ring --tokens 1M --mask window:64K"}}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0) << arguments;
    EXPECT_EQ(o.err, "") << arguments;
    expect_golden(golden, o.out);
  }
}

TEST_F(Program, ListsEverySchedule) {
  const Outcome text = run("schedules"), json = run("schedules --format json");
  for (const ringsched::Schedule& s : ringsched::schedules()) {
    EXPECT_THAT(text.out, testing::ContainsRegex("(^|\n)" + std::string(s.name) + " "));
    EXPECT_THAT(text.out, HasSubstr(s.summary));
    EXPECT_THAT(text.out, HasSubstr(s.source));
    EXPECT_THAT(json.out, HasSubstr("{\"name\": \"" + std::string(s.name) + "\", \"summary\": \"" +
                                    std::string(s.summary) + "\""));
  }
  EXPECT_THAT(run("schedules striped").out, HasSubstr("striped (every W-th token, for W workers)"));
  EXPECT_THAT(run("schedules ring-decode").out,
              HasSubstr("decode (cached tokens spread over the workers)"));
}

// Each entry of a help: an indented name and its description, which may begin on the next line.
std::vector<std::pair<std::string, std::string>> entries(const std::string& help) {
  std::vector<std::pair<std::string, std::string>> out;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t text = line.find_first_not_of(' ');
    if (text == line.npos || text == 0 || line.starts_with("  ringsched ")) continue;
    if (text == 2) {
      const std::size_t gap = line.find("  ", text);
      out.emplace_back(line.substr(text, gap - text), gap == line.npos ? "" : line.substr(28));
    } else {
      out.back().second += (out.back().second.empty() ? "" : " ") + line.substr(text);
    }
  }
  return out;
}

TEST_F(Program, HelpsWithEveryCommandAndFlagInEightyColumns) {
  const std::string top = run("--help").out;
  std::vector<std::string> commands = {""};
  for (const auto& [name, text] : entries(top))
    if (!name.starts_with("-")) commands.push_back(name + " ");
  EXPECT_EQ(commands.size(), 17u);
  for (const std::string& command : commands) {
    const Outcome o = run(command + "--help");
    EXPECT_EQ(o.code, 0) << command;
    std::istringstream lines(o.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_THAT(o.out, HasSubstr("\nExamples:\n  ringsched ")) << command;
    EXPECT_GE(entries(o.out).size(), 2u) << command;
    for (const auto& [name, text] : entries(o.out)) {
      EXPECT_GE(text.size(), 5u) << command << name;
      EXPECT_FALSE(text.ends_with('.')) << command << name << ": " << text;
      if (name.starts_with("-")) {
        EXPECT_FALSE(text.starts_with("the ") || text.starts_with("of ")) << command << name;
      }
    }
  }
}

TEST_F(Program, PrintsItsHelpIfItIsGivenNothing) {
  const Outcome o = run("");
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.err, "");
  EXPECT_EQ(o.out, run("--help").out);
}

TEST_F(Program, HelpsLikeOtherProgramsToo) {
  EXPECT_EQ(run("help").out, run("--help").out);
  EXPECT_EQ(run("help machines check").out, run("machines check --help").out);
  EXPECT_EQ(run("help plan").code, 0);
}

TEST_F(Program, SaysItsVersion) { EXPECT_THAT(run("--version").out, StartsWith("ringsched ")); }

TEST_F(Program, AnswersBadUsageWithOneLineAndStatusTwo) {
  const std::pair<const char*, const char*> cases[] = {
      {"frobnicate", "unknown command 'frobnicate' (known: schedules, plan, verify"},
      {"paln -w 3", "did you mean plan?"},
      {"--bogus", "unknown flag --bogus; flags come after the command (see ringsched --help)"},
      {"--verson", "unknown flag --verson; did you mean --version?"},
      {"--machine x simulate", "--machine comes before the command; flags come after it"},
      {"simulate zigzag", "'zigzag' is not a file; for the schedule, use --schedule zigzag"},
      {"plan --bogus", "plan has no flag --bogus (see ringsched plan --help)"},
      {"plan --worker 4", "plan has no flag --worker; did you mean --workers?"},
      {"plan --work=4", "plan has no flag --work; did you mean --workers?"},
      {"plan --check", "plan has no flag --check; run has it"},
      {"machines new --gppu l20", "machines new has no flag --gppu; did you mean --gpu?"},
      {"machines check a b", "machines check takes no further arguments, but was given 'b'"},
      {"machines new --gpu a100 --nics 2", "--nics 2 needs --nic NAME"},
      {"plan --workers", "--workers needs a value: N (see ringsched plan --help)"},
      {"plan --workers 4 --workers 8", "--workers is given twice"},
      {"plan --workers 4 8", "--workers takes one value, not 4,8; ringsched sweep takes lists"},
      {"simulate --workers 4 8", "--workers takes one value, not 4,8; ringsched sweep takes lists"},
      {"simulate --workers 4,8", "--workers takes one value, not 4,8; ringsched sweep takes lists"},
      {"simulate --machine ideal,dgx-a100", "--machine takes one value, not ideal,dgx-a100"},
      {"simulate -s ring zigzag", "-s takes one value, not ring,zigzag; ringsched sweep takes"},
      {"sweep --workers 4 8", "separate the values with commas: --workers 4,8"},
      {"sweep --tokens=4K 8K 16K", "separate the values with commas: --tokens 4K,8K,16K"},
      {"calibrate --dtype fp32 bf16 -o x.toml", "with commas: --dtype fp32,bf16"},
      {"render --width abc t.json", "--width is 'abc'; use a number"},
      {"schedules x", "unknown schedule 'x' (known: ring, striped"},
      {"schedules ring x",
       "schedules takes no further arguments, but was given 'x' (see ringsched schedules --help)"},
      {"plan -s balanced:hop=1", "schedule balanced has no parameters, but was given \"hop\""},
      {"plan --format jsno", "--format is 'jsno'; did you mean json? (use text or json)"},
      {"sweep --format jsno", "did you mean json? (use text, csv or json)"},
      {"simulate -m dgx-a10", "did you mean dgx-a100?"},
      {"plan --mask casual", "did you mean causal?"},
      {"plan --dtype bf61", "did you mean bf16?"},
      {"plan --pass foward", "did you mean forward?"},
      {"run --backend cdua", "did you mean cuda?"},
      {"run --inputs nromal", "did you mean normal?"},
      {"run --take medain", "did you mean median?"},
      {"run --transport tpc", "did you mean tcp?"},
      {"plan -s zigzak", "did you mean zigzag?"},
      {"plan -w 0", "--workers is 0; use 1 to 65535"},
      {"plan -w -3", "-3"},
      {"plan -w 99999999999999999999", "99999999999999999999"},
      {"plan -w 99999999999999", "--workers is 99999999999999; use 1 to 65535"},
      {"plan -s tree-decode:to=none",
       "tree-decode: parameter 'to' (which workers get the result: all, or one (the worker with "
       "the "
       "new tokens)) cannot be 'none'; use all or one"},
      {"plan -w 5000000000", "--workers is 5000000000"},
      {"plan -t 4", "--tokens is 4, but 8 workers need at least 8"},
      {"plan -t 64X", "--tokens is '64X'"},
      {"plan --heads 32 --kv-heads 5", "--kv-heads is 5, which does not divide --heads (32)"},
      {"plan --head-dim 0", "--head-dim is 0; use 1 to 4096"},
      {"plan -s ring --new-tokens 3",
       "schedule ring does not decode, but --new-tokens is 3; use flash-decode, tree-decode or "
       "ring-decode"},
      {"plan -s ring-decode --pass both",
       "schedule ring-decode is for decoding, which has only a forward pass, but --pass is 'both'"},
      {"plan --new-tokens 3 --pass both",
       "decoding (--new-tokens is 3) has only a forward pass, but --pass is 'both'"},
      {"plan -s ring:foo=1", "schedule ring has no parameter 'foo' (known: sends)"},
      {"plan --dtype fp8", "unknown dtype 'fp8'"},
      {"plan --mask diagonal", "unknown mask 'diagonal'"},
      {"plan --pass sideways", "unknown pass 'sideways'"},
      {"plan --overlap some", "unknown overlap mode 'some'"},
      {"plan -s ring --buffers 1", "ring needs more than 1 key_value buffer"},
      {"plan --format yaml", "--format"},
      {"plan -o /nonexistent/plan.json", "/nonexistent/plan.json"},
      {"plan -o /", "/"},
      {"plan -o p.svg",
       "--output p.svg: 'ringsched plan' writes JSON files, e.g. plan.json; 'ringsched render' "
       "draws plans"},
      {"plan -o p.SVG", "--output p.SVG: 'ringsched plan' writes JSON"},
      {"plan -o ''", "argument 3 is empty (after -o)"},
      {"verify ''", "argument 2 is empty"},
      {"plan --output=", "--output needs a value"},
      {"-V", "unknown flag -V; did you mean --version?"},
      {"sweep --tokens 64K, 128K", "separate the values with commas: --tokens 64K,128K"},
      {"plan --mask window", "mask window needs a length, such as window:4K"},
      {"plan --workers four", "--workers is 'four'; use a whole number from 1 to 65535"},
      {"help nosuch", "unknown command 'nosuch'"},
      {"simulate --format JSON", "JSON"},
      {"verify", "FILE is required"},
      {"verify nothing.json", "nothing.json"},
      {"verify .", "."},
      {"verify --max 0 x.json", "--max is 0; use 1 to 1000000"},
  };
  for (const auto& [arguments, says] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_EQ(o.out, "") << arguments;
    EXPECT_THAT(o.err, StartsWith("ringsched: ")) << arguments;
    EXPECT_THAT(o.err, HasSubstr(says)) << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

TEST_F(Program, WritesAPlanThatItThenProves) {
  for (const ringsched::Schedule& schedule : ringsched::schedules()) {
    const std::string flags = " -w 5 -t 77 --pass both -s " + std::string(schedule.name);
    EXPECT_EQ(run("plan -o p.json" + flags).code, 0);
    const Outcome proof = run("verify p.json");
    EXPECT_EQ(proof.code, 0) << proof.err;
    EXPECT_THAT(proof.out, HasSubstr("\nproved correct: "));
    EXPECT_THAT(proof.out, HasSubstr("\n  one queue      no deadlock even if each worker runs all "
                                     "its lanes from a single queue\n"));
    EXPECT_EQ(run("plan -o -" + flags).out, read_all(folder_ / "p.json"));
    EXPECT_EQ(run("verify - < p.json").out, proof.out);
  }
}

// Worker 0 lists its message before the exchange, worker 1 behind it.
TEST_F(Program, VerifySaysWhatABackwardPlanIsGiven) {
  ASSERT_EQ(run("plan -s ulysses -w 2 -t 8 --heads 2 --kv-heads 2 --head-dim 8 --pass backward "
                "-o b.json")
                .code,
            0);
  EXPECT_THAT(run("verify b.json").out,
              HasSubstr("kept           queries (256 B), keys and values (512 B): assumed"));
  EXPECT_THAT(run("verify b.json --format json").out,
              HasSubstr("\"kept_bytes\": {\"query\": 256, \"key_value\": 512, \"partial\": 0"));
}

TEST_F(Program, SaysIfAPlanNeedsLanesThatProgressIndependently) {
  std::ofstream(folder_ / "p.json") << R"({"format":"ringsched-plan","version":2,
    "problem":{"workers":2,"tokens":8,"heads":2,"kv_heads":1,"head_dim":4,"dtype":"fp32",
               "mask":"documents:4,4","pass":"forward"},
    "tasks":[{"do":"send","in":["KV0"],"to":1},
             {"do":"exchange","in":["Q0"],"rows":[],"members":2,"lane":"return"},
             {"do":"exchange","in":[],"worker":1,"tensor":"query","rows":[0,1],"lane":"return"},
             {"do":"receive","from":0},
             {"do":"attend","in":["Q0","KV0"]},{"do":"attend","in":["Q1","KV1"]}]})";
  const Outcome text = run("verify p.json");
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("\n  one queue      deadlock: the lanes of a worker must "
                                  "progress independently, as task 0 "));
  EXPECT_THAT(run("verify p.json --format json").out,
              HasSubstr("\"needs_independent_lanes\": true"));
}

TEST_F(Program, NamesWhatIsWrongWithAPlanAndExitsWithOne) {
  std::ofstream(folder_ / "bad.json") << R"({"format":"ringsched-plan","version":1,
    "problem":{"workers":2,"tokens":8,"heads":2,"kv_heads":1,"head_dim":4,"dtype":"fp32",
               "mask":"causal","pass":"forward"},
    "tasks":[{"do":"attend","in":["Q0","KV0"]},{"do":"attend","in":["Q1","KV1"]}]})";
  const Outcome text = run("verify bad.json");
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out,
              HasSubstr("coverage: the result of query chunk 1 lacks key chunk 0; see task 1 "));
  EXPECT_THAT(text.out, HasSubstr("incorrect: 1 violation"));
  const Outcome json = run("verify bad.json --format json");
  EXPECT_EQ(json.code, 1);
  EXPECT_THAT(json.out, HasSubstr("\"holds\": false"));
  EXPECT_THAT(json.out, HasSubstr("\"needs_independent_lanes\": null"));
  EXPECT_THAT(json.out, HasSubstr("\"rule\": \"coverage\", \"worker\": 1"));
}

TEST_F(Program, PrintsWhatAFileSaysOnlyAsFarAsItFitsALine) {
  std::string name;
  for (int i = 0; i < 900; ++i) name += "x";
  std::ofstream(folder_ / "p.json") << R"({"format":"ringsched-plan","version":1,
    "schedule":"\u202egnir\u0085)" + name + R"(",
    "problem":{"workers":2,"tokens":200,"heads":2,"kv_heads":1,"head_dim":4,"dtype":"fp32",
               "mask":"documents:101)" + [] {
    std::string ones;
    for (int i = 0; i < 99; ++i) ones += ",1";
    return ones;
  }() + R"(","pass":"forward"},
    "tasks":[{"do":"attend","in":["Q0","KV0"]},{"do":"send","in":["KV0"],"to":1},
             {"do":"receive","from":1},{"do":"attend","in":["Q1","KV1"]},
             {"do":"attend","in":["Q1",2]},{"do":"merge","in":[3,4]}]})";
  const Outcome o = run("verify p.json");
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, StartsWith("?gnir?xxx"));
  EXPECT_THAT(o.out, HasSubstr("xxx...: 2 workers"));
  EXPECT_THAT(o.out, HasSubstr("documents:101,1,1,1,1,1,1,1,1,1,1,1,1,1,..., forward"));
  EXPECT_THAT(o.out, HasSubstr("every send matches a receive: 1 message "));
}

TEST_F(Program, LeavesTheOldFileAloneWhenThePlanIsRefused) {
  std::ofstream(folder_ / "p.json") << "old";
  EXPECT_EQ(run("plan -s ring --buffers 1 -o p.json").code, 2);
  EXPECT_EQ(read_all(folder_ / "p.json"), "old");
}

TEST_F(Program, CountsBytesBeyondAllNumbersAsTheMostThereIs) {
  const std::string huge =
      "plan -w 200 --heads 16384 --kv-heads 16384 --head-dim 4096 -t 2147483647 --dtype fp32";
  const Outcome text = run(huge + " --pass both");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("keys and values (8 EiB or more)"));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("-")));
  const Outcome json = run(huge + " --pass both --overlap unbounded --format json");
  EXPECT_THAT(json.out, HasSubstr("\"key_value\": 9223372036854775807"));
  EXPECT_THAT(json.out, testing::Not(HasSubstr("-")));
}

TEST_F(Program, LeavesNothingBehindWhenAFileGrowsTooLarge) {
  const std::string command = "cd '" + folder_.string() + "' && ulimit -f 1 && '" +
                              program_path().string() +
                              "' plan -w 64 -o p.json >/dev/null 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Program, LeavesNothingBehindWhenItIsInterruptedOrKilled) {
  const auto writes = [&](pid_t child) {
    std::error_code gone;
    std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", child), gone), end;
    for (; !gone && files != end; files.increment(gone))
      if (std::filesystem::read_symlink(files->path(), gone).string().starts_with(folder_.string()))
        return true;
    return false;
  };
  // Where a file may be without a name until it is whole, nothing is left even of a killed process.
  const int nameless = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600);
  std::vector<int> signals = {SIGINT, SIGTERM, SIGHUP};
  if (nameless >= 0) signals.push_back(SIGKILL);
  ::close(nameless);
  for (const int number : signals) {
    const std::string target = (folder_ / "p.json").string();
    const std::string program = program_path().string();
    const char* workers = ringsched::kSanitized ? "250" : "700";
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      std::freopen("/dev/null", "w", stdout);
      execl(program.c_str(), program.c_str(), "plan", "-w", workers, "-o", target.c_str(), nullptr);
      _exit(127);
    }
    // While it writes some ten MB; whoever is too late finds the file whole.
    int status = 0;
    while (!writes(child) && waitpid(child, &status, WNOHANG) == 0)
      std::this_thread::yield();  // leaves the core to the program
    kill(child, number);
    waitpid(child, &status, 0);
    std::filesystem::remove(target);
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << number;
  }
}

TEST_F(Program, FailsWhenItCannotPrint) {
  for (const char* arguments : {"plan", "plan -o -", "plan -w 16 --pass both", "schedules",
                                "--help", "plan --help", "--version"}) {
    const std::string command =
        "'" + program_path().string() + "' " + arguments + " >/dev/full 2>/dev/full";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 3) << arguments;
  }
}

TEST_F(Program, SaysThatItCannotPrint) {
  for (const char* arguments : {"schedules", "machines", "machines dgx-a100"}) {
    const std::string told = folder_ / "told", command = "'" + program_path().string() + "' " +
                                                         arguments + " >/dev/full 2>'" + told + "'";
    EXPECT_NE(std::system(command.c_str()), 0);
    std::stringstream text;
    text << std::ifstream(told).rdbuf();
    EXPECT_EQ(text.str(), "ringsched: cannot write to standard output\n") << arguments;
  }
}

}  // namespace
