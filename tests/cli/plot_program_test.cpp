// `ringsched plot` and `sweep --plot`, as a user sees them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/program.hpp"

namespace {

using ringsched::expect_golden;
using ringsched::Outcome;
using ringsched::read_all;
using testing::HasSubstr;
using testing::StartsWith;

class PlotProgram : public ringsched::ProgramTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string file(const std::string& name) const { return read_all(folder_ / name); }
  void expect_refused(const std::string& arguments, const std::string& why) const {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr(why)) << arguments;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.svg")) << arguments;
  }
};

constexpr const char* kSweep =
    "sweep -m dgx-a100 -s ring,zigzag -w 2,4 -t 8K,16K -o s.csv --format json";

TEST_F(PlotProgram, SaysAtLengthWhatItAlwaysSaid) {
  expect_golden("plot_help.txt", run("plot --help").out);
}

TEST_F(PlotProgram, DrawsSweepsWithTheNumbersOfTheFile) {
  write("s.json", run(kSweep).out);
  ASSERT_EQ(run("plot s.csv -o lines.svg").out, "lines.svg\n");
  const std::string drawn = file("lines.svg"), csv = file("s.csv");
  std::size_t rows = 0;
  for (std::size_t at = csv.find('\n') + 1; at < csv.size(); at = csv.find('\n', at) + 1) {
    std::vector<std::string> cells(1);
    for (std::size_t i = at; csv[i] != '\n'; ++i)
      if (csv[i] == ',')
        cells.emplace_back();
      else
        cells.back() += csv[i];
    const std::string about = cells[11] + ", tokens " + cells[2] + ": makespan_us " + cells[14];
    EXPECT_THAT(drawn, HasSubstr("<title>" + about + "</title>"));
    ++rows;
  }
  EXPECT_EQ(rows, 8u);
  ASSERT_EQ(run("plot s.json -o again.svg").code, 0);
  EXPECT_EQ(file("again.svg"), drawn);
  ASSERT_EQ(run("plot - -o again.svg < s.csv").code, 0);
  EXPECT_EQ(file("again.svg"), drawn);
  EXPECT_THAT(run("sweep -m dgx-a100 -s ring,zigzag -w 2,4 -t 8K,16K --plot again.svg").out,
              HasSubstr("plot again.svg\n"));
  EXPECT_EQ(file("again.svg"), drawn);
  for (const char* how :
       {"--kind map", "--kind pareto", "--kind breakdown", "--y speedup --x workers", "--y memory",
        "--y tokens-per-second --title Mine --legend"}) {
    ASSERT_EQ(run(std::string("plot s.csv --for column -o b.svg ") + how).code, 0) << how;
    EXPECT_THAT(file("b.svg"), HasSubstr("width=\"238pt\"")) << how;
  }
  EXPECT_THAT(file("b.svg"), HasSubstr(">Mine<"));
}

TEST_F(PlotProgram, DrawsPredictionsAndTimelines) {
  write("p.json", run("simulate -m dgx-a100 -s zigzag -w 4 --format json --timeline t.json").out);
  ASSERT_EQ(run("simulate -m dgx-a100 -s ring -w 4 --timeline u.json").code, 0);
  ASSERT_EQ(run("plot p.json -o bars.svg").code, 0);
  EXPECT_THAT(file("bars.svg"), HasSubstr("lower bound"));
  ASSERT_EQ(run("plot t.json u.json -o both.svg").code, 0);
  EXPECT_THAT(file("both.svg"), HasSubstr(">zigzag<"));
  EXPECT_THAT(file("both.svg"), HasSubstr(">ring<"));
  ASSERT_EQ(run("plot t.json -o memory.svg").code, 0);
  EXPECT_THAT(file("memory.svg"), HasSubstr("memory of a worker"));
  ASSERT_EQ(run("plot p.json --kind tornado -o tornado.svg").code, 0);
  EXPECT_THAT(file("tornado.svg"), HasSubstr(">kernels 2x faster<"));
  expect_refused("plot t.json u.json --kind memory -o x.svg", "draws one file, not 2");
  expect_refused("plot t.json --kind tornado -o x.svg", "t.json is a timeline");
  write("s.csv", run("sweep -w 2 -s ring,zigzag --format csv").out);
  expect_refused("plot t.json s.csv -o x.svg",
                 "t.json is a timeline, but s.csv is a sweep; give files of one kind");
  expect_refused("plot s.csv t.json --kind breakdown -o x.svg",
                 "s.csv is a sweep, but t.json is a timeline; give files of one kind");
  write("bad.json", "not JSON at all\n");
  expect_refused(
      "plot bad.json -o x.svg",
      "bad.json is not a file that plot can draw (sweep, simulate, run, validate, timeline "
      "or plan)");
  write("empty.json", "{}\n");
  expect_refused("plot empty.json -o x.svg",
                 "empty.json is not an output of ringsched sweep, simulate, run or validate");
  write("r.json", run("run -w 2 --tokens 64 --repeat 2 --format json").out);
  ASSERT_EQ(run("plot r.json -o runs.svg").code, 0);
  expect_refused("plot r.json --kind breakdown -o x.svg",
                 "r.json is the JSON of a run; use the timeline of the run (ringsched run "
                 "--timeline)");
  expect_refused("plot r.json --kind tornado -o x.svg", "r.json is the JSON of a run");
  expect_refused("plot p.json --kind lines -o x.svg", "p.json is a prediction");
  expect_refused("plot p.json --kind scatter -o x.svg", "validate --format json");
  expect_refused("plot p.json --y memory -o x.svg", "--y is only for --kind lines");
}

TEST_F(PlotProgram, DrawsTrafficOfPlansAndTimelines) {
  ASSERT_EQ(run("simulate -m hgx-h100x4-ib400 -s ring -w 16 --timeline t.json").code, 0);
  ASSERT_EQ(run("plan -s ring -w 16 -o p.json").code, 0);
  ASSERT_EQ(run("plot t.json --kind traffic -o t.svg").code, 0);
  ASSERT_EQ(run("plot p.json -m hgx-h100x4-ib400 -o p.svg").code, 0);
  EXPECT_EQ(file("t.svg"), file("p.svg"));
  EXPECT_THAT(file("t.svg"), HasSubstr("between nodes of 8 workers"));
  EXPECT_THAT(file("t.svg"), HasSubstr("<title>3 to 4: 128 MiB</title>"));  // 4 shares of 32
  ASSERT_EQ(run("plot p.json -o q.svg").code, 0);
  EXPECT_THAT(file("q.svg"), testing::Not(HasSubstr("between nodes")));
  for (const char* which : {"p.json", "t.json"})
    expect_refused(
        fmt::format("plot {} --kind traffic -m dgx-a100 -o x.svg", which),
        fmt::format("{} has 16 workers, but --machine dgx-a100 has room for 8 (8 devices "
                    "with 1 worker each)",
                    which));
  ASSERT_EQ(run("simulate -m dgx-a100 -s ring -w 1 --timeline one.json").code, 0);
  expect_refused("plot one.json --kind traffic -o x.svg",
                 "ring on dgx-a100 has one worker, which sends nothing: no traffic to draw");
  ASSERT_EQ(run("plan -s ring -w 1 -o one.json").code, 0);
  expect_refused("plot one.json -o x.svg",
                 "ringsched: ring has one worker, which sends nothing: no traffic to draw");
}

TEST_F(PlotProgram, SaysHowManyResultsItDoesNotDraw) {
  const std::string one = R"({"schedule": "ring", "published": 2, "predicted": 3})";
  const auto group = [](std::string_view unit, std::string_view results) {
    return fmt::format(R"({{"name": "a", "by": "us", "unit": "{}", "results": [{}]}})", unit,
                       results);
  };
  const std::string five = fmt::format("{0}, {0}, {0}, {0}, {0}", one);
  const std::string ms = group("ms", five);
  write("all.json", fmt::format(R"({{"groups": [{}]}})", ms));
  ASSERT_EQ(run("plot all.json -o all.svg").code, 0);
  EXPECT_THAT(file("all.svg"), testing::Not(HasSubstr("Not drawn")));
  write("few.json", fmt::format(R"({{"groups": [{}, {}]}})", ms,
                                group("speed-up over one device", one + ", " + one)));
  ASSERT_EQ(run("plot few.json -o few.svg").code, 0);
  EXPECT_THAT(file("few.svg"),
              HasSubstr(">Not drawn: 2 results in units that have fewer than 5.<"));
  EXPECT_EQ(run("plot few.json -o few.svg").err, "");
  EXPECT_EQ(run("plot few.json --for column -o few.svg").err,
            "Not drawn: 2 results in units that have fewer than 5.\n");
}

TEST_F(PlotProgram, DrawsHowMakespansVary) {
  const std::string ring =
      run("simulate -m hgx-h100 -s ring -w 4 --noise 5% --runs 40 --format json").out;
  write("a.json", ring);
  write("b.json",
        run("simulate -m hgx-h100 -s zigzag -w 4 --noise 5% --runs 40 --format json").out);
  ASSERT_EQ(run("plot a.json b.json --kind runs -o r.svg").code, 0);
  EXPECT_THAT(file("r.svg"), HasSubstr(">ring<"));
  EXPECT_THAT(file("r.svg"), HasSubstr(" of 40 runs"));
  // The file has all of them, and they agree with the summary.
  const std::size_t at = ring.find("\"makespans_us\": [");
  ASSERT_NE(at, ring.npos);
  std::vector<double> times;
  for (std::size_t i = ring.find('[', at); ring[i] != ']'; i = ring.find_first_of(",]", i + 1))
    times.push_back(std::stod(ring.substr(i + 1)));
  ASSERT_EQ(times.size(), 40u);
  const std::size_t worst = ring.find("\"worst_us\": ");
  EXPECT_EQ(*std::ranges::max_element(times), std::stod(ring.substr(worst + 12)));
  EXPECT_LT(*std::ranges::min_element(times), *std::ranges::max_element(times));
  // Of a run on this machine as well, which has nothing else to draw.
  write("run.json", run("run -w 2 -t 64 --heads 2 --kv-heads 2 --head-dim 8 --repeat 5 "
                        "--format json")
                        .out);
  ASSERT_EQ(run("plot run.json -o run.svg").code, 0);
  EXPECT_THAT(file("run.svg"), HasSubstr("measured"));
  write("one.json", run("simulate -m hgx-h100 -w 4 --runs 1 --format json").out);
  expect_refused("plot one.json --kind runs -o x.svg", "one.json has one run");
  write("c.json", run("simulate -m hgx-h100 -w 8 --noise 5% --runs 4 --format json").out);
  expect_refused("plot a.json c.json --kind runs -o x.svg", "plot them separately");
}

TEST_F(PlotProgram, DrawsWhatWasPublished) {
  write("v.json", R"({"groups": [{"name": "g", "by": "Someone", "unit": "ms", "results": [
    {"schedule": "ring", "published": 1, "predicted": 1.1},
    {"schedule": "ring", "published": 2, "predicted": 1.9},
    {"schedule": "ring", "published": 3, "predicted": 3.5},
    {"schedule": "ring", "published": 4, "predicted": 4},
    {"schedule": "zigzag", "published": 5, "predicted": 4.5}]}]})");
  ASSERT_EQ(run("plot v.json -o v.svg").code, 0);
  EXPECT_THAT(file("v.svg"), HasSubstr("<title>g, ring: published 3, predicted 3.5</title>"));
  EXPECT_THAT(file("v.svg"), HasSubstr(">Someone<"));
}

// Ticks between them would all be one number, and have one label.
TEST_F(PlotProgram, DrawsValuesThatDifferInTheirLastBits) {
  write("u.csv",
        "schedule,workers,tokens,makespan_us,peak_bytes\nring,4,1024,0.3,9007199254740992\n"
        "zigzag,4,1024,0.30000000000000004,9007199254740994\n");
  ASSERT_EQ(run("plot u.csv --kind pareto -o u.svg").code, 0);
  write("r.json", R"({"schedule": "ring", "workers": 4, "tokens": 4096,
    "runs_us": [100.000001, 100.000002, 100.000002]})");
  ASSERT_EQ(run("plot r.json --kind runs -o r.svg").code, 0);
  const std::string svg = file("r.svg");
  EXPECT_THAT(svg, HasSubstr(">99.99<"));
  EXPECT_EQ(svg.find(">100<"), svg.rfind(">100<")) << "one tick of 100";
}

// The name of a machine does not say what its times are.
TEST_F(PlotProgram, DrawsBlocksOfAnOwnProfileAsBlocks) {
  write("own.toml", "name = \"mine\"\nsummary = \"y\"\nmodel = \"ideal\"\n");
  ASSERT_EQ(run("sweep -m own.toml -w 4,8 -s ring,zigzag -o own.csv --plot own.svg").code, 0);
  EXPECT_THAT(file("own.svg"), HasSubstr("blocks"));
  expect_refused("plot own.csv --y tokens-per-second -o x.svg", "blocks have no seconds");
  write("alias.toml", "name = \"ideal\"\nsummary = \"y\"\nbase = \"dgx-a100\"\n");
  ASSERT_EQ(run("sweep -m alias.toml -w 4,8 -s ring -o alias.csv --plot alias.svg").code, 0);
  EXPECT_THAT(file("alias.csv"), HasSubstr("\nideal (alias.toml),"));
  EXPECT_THAT(file("alias.svg"), testing::Not(HasSubstr("blocks")));
}

TEST_F(PlotProgram, RefusesInOneLine) {
  run(kSweep);
  run("sweep -w 4 -s ring -o one.csv");
  run("plan -w 2 -o plan.json");
  write("empty.csv", "");
  write("short.csv", file("s.csv").substr(0, file("s.csv").find('\n') + 20));
  write("other.csv", "a,b\n1,2\n");
  write("broken.json", "{\"by_worker\": ");
  expect_refused("plot s.csv -o x.gif",
                 "--output x.gif: use a name that ends in .svg, .pdf or .png");
  expect_refused("plot s.csv", "--output");
  expect_refused("plot gone.csv -o x.svg", "gone.csv");
  expect_refused("plot empty.csv -o x.svg", "empty.csv is empty");
  expect_refused("plot short.csv -o x.svg", "short.csv:2: expected 32 columns");
  expect_refused("plot other.csv -o x.svg", "has no column schedule; its columns are a, b");
  expect_refused("plot broken.json -o x.svg", "broken.json:1:15: the file is cut off here");
  write("cut.json", "{\n\"unit\": \"us\", \"runs_us\": [1,");
  write("cut-rows.json", "[{\"unit\": \"us\",");
  expect_refused("plot cut-rows.json -o x.svg",
                 "cut-rows.json is not JSON: it is cut off, or a comma, bracket or name "
                 "is missing or superfluous");
  expect_refused("plot cut.json -o x.svg", "cut.json:2:29: the file is cut off here");
  expect_refused("plot plan.json --kind memory -o x.svg", "plan.json is a plan");
  expect_refused("plot s.csv --kind traffic -o x.svg", "s.csv is a sweep");
  expect_refused("plot s.csv --kind runs -o x.svg", "s.csv is a sweep");
  expect_refused("plot s.csv -m dgx-a100 -o x.svg", "--machine is only for --kind traffic");
  expect_refused("plot one.csv --kind lines -o x.svg", "neither tokens nor workers vary");
  expect_refused("plot one.csv --kind map -o x.svg", "the map would be one cell");
  expect_refused("plot s.csv --kind pie -o x.svg", "--kind");
  expect_refused("plot s.csv --y idle -o x.svg", "use time, speedup, tokens-per-second or memory");
  expect_refused("plot s.csv --x heads -o x.svg", "--x is heads; use tokens or workers");
  expect_refused("plot s.csv --scale 3 -o x.svg", "--scale is only for a .png");
  expect_refused("plot s.csv --for poster -o x.svg", "use column, text or slide");
  expect_refused("plot s.csv -o s.csv", "would overwrite s.csv");
  write("zero.csv",
        "schedule,workers,tokens,makespan_us,peak_bytes\nring,4,1024,0,9\nzigzag,4,1024,3,9\n");
  expect_refused("plot zero.csv --kind pareto -o x.svg", "makespan_us is 0; it must be from");
  expect_refused("sweep -w 2 --plot x.gif", "--plot x.gif: use a name that ends in");
  expect_refused("sweep -w 2 --for column", "--for is only for a picture: --plot FILE");
  expect_refused("sweep -w 2 -o x.csv --plot x.csv", "would overwrite x.csv");
  // Before the work: nothing is printed, and no row is kept.
  for (const auto& [what, why] :
       {std::pair{"-m ideal,dgx-a100 -w 2,4",
                  "in blocks, the others in seconds; plot them separately"},
        {"-s ring -w 2,4 --heads 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25 "
         "--kv-heads 1",
         "more than 24 panels would be needed"}}) {
    expect_refused(fmt::format("sweep {} -o kept.csv --plot x.svg", what), why);
    EXPECT_EQ(run(fmt::format("sweep {} --plot x.svg", what)).out, "");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "kept.csv"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "kept.csv.partial"));
  }
}

}  // namespace
