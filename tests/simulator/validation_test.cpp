#include "ringsched/simulator/validation.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ringsched/scheduler/error.hpp"
#include "support/paths.hpp"

namespace ringsched {

namespace {

using ::testing::HasSubstr;

constexpr const char* kSmall = R"([[group]]
name = "mine"
quantity = "ms"
machine = "dgx-a100"
problem = { workers = 4, heads = 8 }
results = [
  { tokens = 8192, schedule = "ring", published = 1.5 },
  { tokens = 8192, schedule = "zigzag", published = 1.0 },
  { tokens = 16384, schedule = "ring", published = 4.0, pass = "both" },
]
)";

Measurements small() { return read_measurements(kSmall, "mine.toml"); }

std::string edited(std::string_view what, std::string_view instead) {
  std::string text = kSmall;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

// All but a few: a ring over all eight devices was slower than anything here explains.
TEST(Validation, DegreesOfUspAreMostlyInThePublishedOrder) {
  Measurements some = published_measurements();
  std::erase_if(some.groups, [](const MeasuredGroup& g) {
    return !g.name.starts_with("USP, 8 x A100, forward, 128K tokens");
  });
  ASSERT_EQ(some.groups.size(), 6u);
  std::size_t in_order = 0, pairs = 0;
  for (const ValidatedGroup& g : validate(some).groups) {
    // By the kind of ring, so that only degrees are compared.
    for (const std::string_view ring : {"", ":ring=zigzag", ":ring=striped"}) {
      ValidatedGroup degrees;
      for (const ValidatedResult& r : g.results)
        if (r.schedule.substr(std::string_view("usp:ulysses=8").size()) == ring)
          degrees.results.push_back(r);
      in_order += degrees.ranking().in_order;
      pairs += degrees.ranking().pairs;
    }
  }
  EXPECT_GE(20 * in_order, 19 * pairs) << in_order << " of " << pairs;
}

// No test asks for an error: that would tempt one to leave hard results out. This asks for all.
TEST(Validation, PublishedResultsStayInTheListAndHaveASource) {
  std::size_t results = 0;
  std::set<std::string> names;
  for (const MeasuredGroup& g : published_measurements().groups) {
    results += g.results.size();
    EXPECT_TRUE(names.insert(g.name).second) << g.name;
    EXPECT_FALSE(g.source.empty()) << g.name;
    EXPECT_NE(g.by, g.file) << g.name;
    // A line of a log that lost a letter once gave two results for one problem.
    for (const MeasuredResult& a : g.results)
      for (const MeasuredResult& b : g.results)
        EXPECT_FALSE(&a != &b && a.schedule == b.schedule && a.overlap == b.overlap &&
                     a.problem == b.problem)
            << g.file << ":" << a.line << " and " << b.line;
  }
  EXPECT_GE(results, 2550u);
}

TEST(Validation, AResultCompletesTheProblemOfItsGroup) {
  const MeasuredGroup g = small().groups.at(0);
  EXPECT_EQ(g.by, "mine.toml");
  EXPECT_EQ(g.machine.name, "dgx-a100");
  ASSERT_EQ(g.results.size(), 3u);
  EXPECT_EQ(g.results[1].problem.workers, 4u);
  EXPECT_EQ(g.results[1].problem.kv_heads, 8u);  // as many as heads
  EXPECT_EQ(g.results[1].problem.tokens, Tokens{8192});
  EXPECT_EQ(g.results[2].problem.pass, Pass::Both);
  EXPECT_EQ(g.results[2].line, 9u);
}

// As with --software, unless the file says it.
TEST(Validation, TakesTheKernelsOfTheSoftware) {
  const auto library = [](const std::string& keys) {
    return read_measurements("[[group]]\nname = \"x\"\nquantity = \"ms\"\n" + keys +
                                 "\nproblem = { workers = 2, heads = 8, tokens = \"4K\" }\n"
                                 "results = [{ schedule = \"ring\", measured = 1 }]\n",
                             "mine.toml")
        .groups[0]
        .machine.library;
  };
  const std::string machine = "machine = \"hgx-h100\"\n";
  EXPECT_EQ(library(machine), "cudnn");
  EXPECT_EQ(library(machine + "software = \"ring-flash-attention\""), "fa2");
  EXPECT_EQ(library(machine + "kernels = \"fa3\"\nsoftware = \"ring-flash-attention\""), "fa3");
  EXPECT_EQ(
      library("machine = \'\'\'\nname = \"x\"\nsummary = \"y\"\nbase = \"hgx-h100\"\nlibrary = "
              "\"fa3\"\n\'\'\'\nsoftware = \"ring-flash-attention\""),
      "fa3");
  EXPECT_THROW(library(machine + "kernels = \"fa5\""), Error);
  const Measurements two = read_measurements(
      R"([[group]]
name = "a"
quantity = "ms"
machine = "hgx-h100"
problem = { workers = 2, heads = 8, tokens = 4096 }
results = [{ schedule = "ring", measured = 1 }]
[[group]]
name = "b"
quantity = "ms"
same_machine = true
software = "ring-flash-attention"
problem = { workers = 2, heads = 8, tokens = 4096 }
results = [{ schedule = "ring", measured = 1 }]
)",
      "mine.toml");
  EXPECT_EQ(two.groups[1].machine.library, "fa2");
}

TEST(Validation, TellsFileLineAndKeyOfWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "mine.toml:1: group is missing"},
      {"group = 1", "mine.toml:1: group must be a list that is not empty"},
      {"[[group]\n", "mine.toml:1: "},
      {edited("name = \"mine\"\n", ""), "mine.toml:1: group.name is missing"},
      {edited("\"ms\"", "\"min\""),
       "mine.toml:3: group.quantity must be one of: iterations_per_s, ms"},
      {edited("dgx-a100", "dgx-a10"), "mine.toml:4: group.machine: unknown machine 'dgx-a10'"},
      {edited("dgx-a100", "no/such.toml"), "mine.toml:4: group.machine: "},
      {edited("machine = \"dgx-a100\"", "same_machine = true"), "mine.toml:4: group.same_machine"},
      {edited("machine = \"dgx-a100\"\n", ""), "mine.toml:1: group.machine is missing"},
      {edited("\"dgx-a100\"",
              "'''\nname = \"x\"\nsummary = \"y\"\nbase = \"dgx-a100\"\nlaunch = 3\n'''"),
       "mine.toml:8: launch must be a table"},
      {edited("workers = 4", "workers = 0"), "mine.toml:5: group.problem.workers must be a whole"},
      {edited("heads = 8", "head = 8"), "mine.toml:5: unknown key 'group.problem.head'"},
      {edited("heads = 8", "dtype = \"bf16\""), "mine.toml:7: group.results.heads is missing"},
      {edited("\"ring\"", "\"rong\""),
       "mine.toml:7: group.results.schedule: unknown schedule 'rong'"},
      {edited("1.5", "0"), "mine.toml:7: group.results.published must be a number from"},
      {edited(", published = 1.5", ""), "mine.toml:7: group.results.published is missing"},
      {edited("\"both\"", "\"all\""), "mine.toml:9: group.results.pass must be one of"},
      {edited("published = 1.5", "published = 1.5, mask = \"round\""),
       "mine.toml:7: group.results.mask: "},
      {edited("published = 1.5", "published = 1.5, overlap = \"some\""),
       "mine.toml:7: group.results.overlap: "},
      {edited("published = 1.5", "published = 1.5, kv_heads = 3"), "mine.toml:7: "},
      {edited("\"ms\"", "\"speedup_over\""), "mine.toml:1: group.over is missing"},
      {edited("\"ms\"", "\"ms\"\nover = \"ring\""), "mine.toml:1: group.over is only for quantity"},
      {edited("\"ms\"", "\"speedup_over\"\nover = \"rong\""),
       "mine.toml:4: group.over: unknown schedule 'rong'"},
      {edited("\"ms\"", "\"ms\"\nnoise = 2"), "mine.toml:4: group.noise must be a number"},
      {std::string(kSmall) + "[[excluded]]\nwhat = \"x\"\n", "excluded.reason is missing"},
      {std::string(kSmall) + "title = \"x\"\n", "mine.toml:11: unknown key 'group.title'"},
  };
  const Measurements us = read_measurements(
      edited("\"ms\"", "\"us\"").replace(0, 0, "# as people write them\n"), "mine.toml");
  EXPECT_EQ(us.groups[0].measure, Measure::Ms);
  EXPECT_NEAR(us.groups[0].results[0].published, 0.0015, 1e-12);
  const Measurements words =
      read_measurements(edited("tokens = 8192, schedule = \"ring\", published",
                               "tokens = \"8K\", schedule = \"ring\", measured"),
                        "mine.toml");
  EXPECT_EQ(words.groups[0].results[0].problem.tokens, Tokens{8192});
  EXPECT_EQ(words.groups[0].results[0].published, 1.5);
  for (const auto& [text, told] : cases) try {
      read_measurements(text, "mine.toml");
      ADD_FAILURE() << "read: " << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(told)) << text;
      EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos) << e.what();
    }
}

TEST(Validation, AnotherScheduleForTheSameProblemIsTheBaselineOfSpeedupOver) {
  const auto of = [](const std::string& text) {
    return validate(read_measurements(text, "mine.toml")).groups.at(0).results;
  };
  const auto times = of(kSmall), over = of(edited("\"ms\"", "\"speedup_over\"\nover = \"ring\""));
  EXPECT_DOUBLE_EQ(over[0].predicted, 1);
  EXPECT_NEAR(over[0].half_width, 0, 1e-9);  // a ring over a ring is off by nothing
  EXPECT_DOUBLE_EQ(over[1].predicted, times[0].predicted / times[1].predicted);
  EXPECT_GT(over[1].half_width, 0);
}

TEST(Validation, TakesMasksOfManyDocuments) {
  const auto with = [](int documents) {
    std::string mask = "documents:16";
    for (int i = 1; i < documents; ++i) mask += ",16";
    return edited(
        "tokens = 8192, schedule = \"ring\"",
        fmt::format("tokens = {}, mask = \"{}\", schedule = \"all-gather\"", 16 * documents, mask));
  };
  const Measurements some = read_measurements(with(512), "mine.toml");
  EXPECT_EQ(to_text(some.groups[0].results[0].problem.mask).size(), 9 + 512 * 3);
  EXPECT_THAT([&] { read_measurements(with(8192), "mine.toml"); },
              testing::ThrowsMessage<Error>(HasSubstr("at most 20000 are allowed")));
}

TEST(Validation, IsTheSameOnAnyNumberOfThreads) {
  const auto intervals = [](unsigned threads) {
    std::vector<double> out;
    const Validation found = validate(small(), {}, threads);
    for (const ValidatedResult& r : found.groups[0].results)
      out.insert(out.end(), {r.predicted, r.interval->low, r.interval->high});
    return out;
  };
  EXPECT_EQ(intervals(1), intervals(3));
}

TEST(Validation, CountsWhatLiesInsideTheIntervals) {
  ValidatedGroup g;
  const auto add = [&](double published, double half_width) {
    ValidatedResult r;
    r.predicted = 10;
    r.published = published;
    r.interval = Range{9, 12};
    r.half_width = half_width;
    g.results.push_back(r);
  };
  for (const double published : {8.9, 9.0, 11.0, 12.0, 12.1}) add(published, published / 100);
  g.results.back().interval.reset();
  const Errors e = errors_of(g);
  EXPECT_EQ(e.results, 5u);
  EXPECT_EQ(e.intervals, 4u);
  EXPECT_EQ(e.held, 3u);
  EXPECT_EQ(e.narrow, 3u);
  EXPECT_DOUBLE_EQ(e.half_width, 0.10);
}

TEST(Validation, TellsWhereAScheduleDoesNotFit) {
  Measurements m = read_measurements(edited("\"ring\"", "\"usp:ulysses=3\""), "mine.toml");
  try {
    validate(m);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("mine.toml:7: "));
  }
}

TEST(Validation, PairsThatHardlyDifferHaveNoOrder) {
  ValidatedGroup g;
  const auto add = [&](double published, double predicted) {
    ValidatedResult r;
    r.published = published;
    r.predicted = predicted;
    g.results.push_back(r);
  };
  add(100, 7);
  add(102, 5);  // 2 percent more
  EXPECT_EQ(g.ranking().pairs, 0u);
  add(104, 6);  // 4 percent more than the first, and predicted below it
  EXPECT_EQ(g.ranking().pairs, 1u);
  EXPECT_EQ(g.ranking().in_order, 0u);
  add(50, 1);
  EXPECT_EQ(g.ranking().pairs, 4u);
  EXPECT_EQ(g.ranking().in_order, 3u);
  g.results.back().problem.tokens = {1};  // another problem
  EXPECT_EQ(g.ranking().pairs, 1u);
}

TEST(Validation, ReadsTheTextOfASoftwareProfile) {
  const auto read = [](const std::string& software) {
    return read_measurements(R"([[group]]
name = "mine"
quantity = "ms"
machine = "dgx-a100"
)" + software + R"(
problem = { workers = 8, heads = 32 }
results = [{ tokens = 65536, schedule = "ring", published = 20 }]
)",
                             "mine.toml")
        .groups[0]
        .machine.software;
  };
  SoftwareFigures expected = find_software("burst-attention");
  EXPECT_EQ(read("software = \"burst-attention\""), expected);
  expected.posts_first = true;
  expected.source = "one queue";
  EXPECT_EQ(
      read("software = '''\nbase = \"burst-attention\"\n[software]\nposts_first = true\nsource = "
           "\"one queue\"\n'''"),
      expected);
  for (const auto& [software, wrong] :
       {std::pair{"software = '''\n[software]\nposts_last = true\n'''",
                  "mine.toml:7: unknown key 'software.posts_last'"},
        {"software = 3",
         "mine.toml:5: group.software must be a string: a name, a path or the text"},
        {"software = \"\"",
         "mine.toml:5: group.software must be a string: a name, a path or the text"},
        {"software = \"burst\"", "mine.toml:5: group.software: "}}) {
    try {
      read(software);
      ADD_FAILURE() << software;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(wrong));
    }
  }
}

// The prediction is the same; what is measured varies, by as much as the result or else its group
// says.
TEST(Validation, NoiseOfAMeasurementWidensItsInterval) {
  const Validation v = validate(read_measurements(R"([[group]]
name = "mine"
quantity = "ms"
machine = "dgx-a100"
noise = 0.2
problem = { workers = 4, heads = 8, tokens = 8192 }
results = [
  { schedule = "ring", published = 1 },
  { schedule = "ring", published = 1, noise = 0 },
  { schedule = "ring", published = 1, noise = 0.5 },
]
)",
                                                  "mine.toml"));
  const std::vector<ValidatedResult>& r = v.groups.at(0).results;
  ASSERT_EQ(r.size(), 3u);
  EXPECT_EQ(r[0].noise, 0.2);
  EXPECT_EQ(r[1].noise, 0);
  EXPECT_EQ(r[2].noise, 0.5);
  EXPECT_EQ(r[0].predicted, r[2].predicted);
  EXPECT_GT(r[0].half_width, r[1].half_width + 0.05);
  EXPECT_GT(r[2].half_width, r[0].half_width + 0.2);
}

TEST(Validation, SumsUpByLinks) {
  const Validation v = validate(read_measurements(R"([[group]]
name = "one node"
quantity = "ms"
machine = "hgx-h100x4-ib400"
problem = { heads = 8, tokens = 8192 }
results = [
  { workers = 1, schedule = "ring", published = 1 },
  { workers = 8, schedule = "ring", published = 1 },
  { workers = 9, schedule = "ring", published = 1 },
  { workers = 32, schedule = "ring", published = 1 },
]
[[group]]
name = "PCIe"
quantity = "ms"
machine = "pcie-l20x8"
problem = { heads = 8, tokens = 8192, workers = 4 }
results = [{ schedule = "ring", published = 1 }]
)",
                                                  "mine.toml"));
  EXPECT_EQ(v.errors_of(LinkClass::OneDevice).results, 1u);
  EXPECT_EQ(v.errors_of(LinkClass::NvLink).results, 1u);
  EXPECT_EQ(v.errors_of(LinkClass::Pcie).results, 1u);
  EXPECT_EQ(v.errors_of(LinkClass::Network).results, 2u);
}

TEST(Validation, SumsUpBySize) {
  Validation v;
  v.groups.resize(1);
  const auto add = [&](std::int64_t tokens, double published, double predicted) {
    ValidatedResult r;
    r.problem.workers = 4;
    r.problem.tokens = {tokens};
    r.published = published;
    r.predicted = predicted;
    r.error = predicted / published - 1;
    v.groups[0].results.push_back(r);
  };
  add(4 * 1023, 1, 1);
  add(4 * 1024, 2, 3);
  add(4 * 4096, 5, 5);
  add(4 * 4096, 6, 4);  // in the other order
  add(4 * 4097, 1, 1);
  add(4 * 16384, 1, 1);
  v.groups[0].results.back().problem.new_tokens = {1};  // decodes
  std::vector<std::size_t> results, pairs;
  for (const SizeClass& c : kSizeClasses) {
    results.push_back(v.errors_of(c).results);
    pairs.push_back(v.errors_of(c).ranking.pairs);
  }
  EXPECT_THAT(results, testing::ElementsAre(1, 3, 1, 0));
  EXPECT_THAT(pairs, testing::ElementsAre(0, 1, 0, 0));
  EXPECT_NEAR(v.errors_of(kSizeClasses[1]).median, 1. / 3, 1e-12);
}

// Of a pair, the second takes longer in 8 of 10 draws, or in 7.
TEST(Validation, IsSureOfAPairThatMostDrawsOrderAlike) {
  ValidatedGroup g;
  g.results.resize(2);
  ValidatedResult &first = g.results[0], &second = g.results[1];
  first.published = 1;
  second.published = 2;
  first.possible.assign(10, 5.0);
  second.possible = {6, 6, 6, 6, 6, 6, 6, 6, 4, 4};
  EXPECT_EQ(g.ranking().pairs, 1u);
  EXPECT_EQ(g.ranking().sure, 1u);
  EXPECT_EQ(g.ranking().sure_in_order, 1u);
  g.measure = Measure::IterationsPerS;  // the published order is the opposite one
  EXPECT_EQ(g.ranking().sure, 1u);
  EXPECT_EQ(g.ranking().sure_in_order, 0u);
  g.measure = Measure::Ms;
  first.noise = 0.5;  // a measurement that noisy may come out on either side
  EXPECT_EQ(g.ranking().sure, 0u);
  first.noise = 0;
  second.possible[7] = 4;
  EXPECT_EQ(g.ranking().sure, 0u);
  second.possible[7] = 5;  // equal: counts by half
  EXPECT_EQ(g.ranking().sure, 0u);
  first.possible.clear();  // a plan too large to draw
  EXPECT_EQ(g.ranking().sure, 0u);
  EXPECT_EQ(g.ranking().pairs, 1u);
}

// The published ring is slower than the other schedule, at the same speed, faster.
TEST(Validation, ASpeedupOverAnotherScheduleIsAPair) {
  ValidatedGroup g;
  g.measure = Measure::SpeedupOver;
  const auto add = [&](double published, double predicted) {
    ValidatedResult r;
    r.problem.tokens = {static_cast<std::int64_t>(g.results.size())};
    r.published = published;
    r.predicted = predicted;
    r.possible = {1 / predicted, 1 / predicted, 1 / predicted};
    g.results.push_back(r);
  };
  add(0.9, 0.8);
  add(1.01, 2);
  add(1.2, 1.1);
  add(1.3, 0.9);
  add(0.7, 1.5);
  EXPECT_EQ(g.ranking().pairs, 4u);
  EXPECT_EQ(g.ranking().in_order, 2u);
  EXPECT_EQ(g.ranking().sure, 4u);
  EXPECT_EQ(g.ranking().sure_in_order, 2u);
}

// Where the kernels of others stand in, an error would be theirs.
TEST(Validation, ErrorsOfResultsThatAreOnlyOrderedDoNotCount) {
  Validation v;
  v.groups.resize(2);
  v.groups[0].by = v.groups[1].by = "them";
  v.groups[0].results.resize(3);
  const auto set = [](ValidatedResult& r, double error) {
    r.error = error;
    r.time_ratio = 1 + error;
  };
  set(v.groups[0].results[0], -0.5);  // a factor of 2
  set(v.groups[0].results[1], 0.75);  // of 1.75
  set(v.groups[0].results[2], 0.25);
  v.groups[1] = v.groups[0];
  v.groups[1].order_only = true;
  set(v.groups[1].results[0], 9);
  EXPECT_EQ(v.errors().results, 3u);
  EXPECT_EQ(v.errors().mean, 0.5);
  EXPECT_EQ(v.errors().median, 0.5);
  EXPECT_EQ(v.errors().worst, -0.5);
  EXPECT_EQ(v.errors().worst_factor(), 2);
  EXPECT_EQ(v.errors().too_fast, 1u);
  EXPECT_EQ(v.errors_of("them").results, 3u);
  EXPECT_EQ(v.errors_of("others").results, 0u);
  v.groups[0].results[0].impossible = true;
  EXPECT_EQ(v.errors().impossible, 1u);
  EXPECT_EQ(v.errors().worst, 0.75);
  EXPECT_EQ(v.errors().median, 0.5);
}

// Unless the benchmark waits, a call costs what the host or the device takes, whichever is longer.
TEST(Validation, ALoopCostsTheLongerOfHostAndDevice) {
  Measurements m = small();
  MeasuredGroup& g = m.groups.at(0);
  const auto times = [&](double us, bool loop) {
    g.machine.software.host = {};
    g.machine.software.host.attend_us = us;
    g.loop = loop;
    return validate(m).groups.at(0).results.at(0);
  };
  const double device = times(0, false).predicted;
  EXPECT_EQ(times(0, true).predicted, device);
  EXPECT_EQ(times(50, true).predicted, device);
  EXPECT_GT(times(50, false).predicted, device);
  // Four attends on the last worker, whose host is the slowest.
  EXPECT_DOUBLE_EQ(times(10'000, true).predicted, 40);
  EXPECT_GT(times(10'000, false).predicted, 40);
  const ValidatedResult r = times(10'000, true);
  EXPECT_NEAR(r.attending_ms + r.overhead_ms + r.communication_ms + r.contention_ms + r.host_ms +
                  r.waiting_ms,
              40, 1e-9);
  // A host that waits for its device at each step is not ahead of it.
  g.machine.software.host.synchronises = Synchronises::Steps;
  const double looped = validate(m).groups.at(0).results.at(0).predicted;
  EXPECT_GT(looped, 40);
  g.loop = false;
  EXPECT_EQ(validate(m).groups.at(0).results.at(0).predicted, looped);
}

// Every input that ever failed, and some that should be read or refused.
TEST(Validation, ReadsOrRefusesTheCorpus) {
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_folder() / "tests/fuzz/corpus/measurements")) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    ++files;
    try {
      EXPECT_FALSE(read_measurements(text.str(), "input").groups.empty());
    } catch (const Error& e) {
      EXPECT_TRUE(std::string_view(e.what()).starts_with("input:")) << entry.path();
    }
  }
  EXPECT_GE(files, 3u);
}

}  // namespace

}  // namespace ringsched
