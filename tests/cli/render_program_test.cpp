// `ringsched render` and the pictures of `simulate`, as a user sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "support/program.hpp"

namespace {

using ringsched::expect_golden;
using ringsched::Outcome;
using ringsched::read_all;
using testing::HasSubstr;
using testing::StartsWith;

class RenderProgram : public ringsched::ProgramTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string file(const std::string& name) const { return read_all(folder_ / name); }
  // All there is in the folder but what the shell wrote.
  std::string listing() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().filename() != "out.txt" && entry.path().filename() != "err.txt")
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    std::string all;
    for (const std::string& n : names) all += n + " ";
    return all;
  }
  void expect_refused(const std::string& arguments, const std::string& why) const {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr(why)) << arguments;
  }
};

TEST_F(RenderProgram, SaysAtLengthWhatItAlwaysSaid) {
  expect_golden("render_help.txt", run("render --help").out);
  run("simulate -w 8 --timeline t.json");
  expect_golden("gantt_balanced_8.txt", run("render t.json").out);
}

TEST_F(RenderProgram, DrawsTheSameFromAFileAsFromTheRun) {
  const std::string drawn =
      run("simulate -m dgx-a100 --timeline t.json --gantt a.svg --block-map b.svg").out;
  EXPECT_THAT(drawn, HasSubstr("gantt      a.svg\nblock map  b.svg\n"));
  EXPECT_THAT(drawn, HasSubstr(run("render t.json").out));
  run("plan -o p.json");
  EXPECT_EQ(run("render t.json -o c.svg").out, "c.svg\n");
  EXPECT_EQ(run("render p.json -o d.svg").code, 0);
  EXPECT_EQ(file("a.svg"), file("c.svg"));
  EXPECT_EQ(file("b.svg"), file("d.svg"));
  EXPECT_EQ(run("simulate -m dgx-a100 --no-chart --format text").out.find("worker 0 "),
            std::string::npos);
}

TEST_F(RenderProgram, WritesWhatTheNameAsksFor) {
  run("simulate -w 3 --timeline t.json");
  run("simulate -w 3 -s ring --timeline u.json");
  for (const char* two : {"", " u.json"}) {
    ASSERT_EQ(run("render t.json" + std::string(two) + " -o a.svg").code, 0);
    EXPECT_THAT(file("a.svg"), StartsWith("<svg "));
    const Outcome drawn = run("render t.json" + std::string(two) + " -o a.png");
    if (drawn.err.find("libcairo2-dev") != std::string::npos) GTEST_SKIP() << "built without Cairo";
    ASSERT_EQ(drawn.code, 0) << drawn.err;
    EXPECT_THAT(file("a.png"), StartsWith("\x89PNG"));
    ASSERT_EQ(run("render t.json" + std::string(two) + " -o a.pdf").code, 0);
    EXPECT_THAT(file("a.pdf"), StartsWith("%PDF"));
  }
  const std::size_t small = file("a.png").size();
  ASSERT_EQ(run("render t.json u.json -o a.png --scale 4").code, 0);
  EXPECT_GT(file("a.png").size(), small);
  ASSERT_EQ(run("render t.json -o narrow.svg --width 500 --critical-path none").code, 0);
  EXPECT_THAT(file("narrow.svg"), HasSubstr("width=\"500\""));
}

TEST_F(RenderProgram, DrawsForPapersAndSlides) {
  run("simulate -w 4 -s ring --timeline t.json");
  run("plan -w 4 -s ring -o p.json");
  for (const auto& [medium, width] :
       {std::pair{"column", "238"}, {"text", "506"}, {"slide", "960"}}) {
    const std::string size = "width=\"" + std::string(width) + "pt\"",
                      flags = std::string(" --for ") + medium;
    ASSERT_EQ(run("simulate -w 4 --no-chart --gantt g.svg --block-map b.svg" + flags).code, 0);
    EXPECT_THAT(file("g.svg"), HasSubstr(size));
    EXPECT_THAT(file("b.svg"), HasSubstr(size));
    ASSERT_EQ(run("render t.json -o r.svg" + flags).code, 0);
    EXPECT_THAT(file("r.svg"), HasSubstr(size));
    ASSERT_EQ(run("render p.json -o r.svg" + flags).code, 0);
    EXPECT_THAT(file("r.svg"), HasSubstr(size));
    const Outcome drawn = run("render p.json --graph --worker 1 --steps 0-1 -o r.svg" + flags);
    if (drawn.code == 0)
      EXPECT_THAT(file("r.svg"), HasSubstr(size));
    else
      EXPECT_THAT(drawn.err, HasSubstr("libgraphviz-dev"));
  }
  run("render t.json -o r.svg --for column --title Mine --legend");
  EXPECT_THAT(file("r.svg"), HasSubstr(">Mine<"));
  EXPECT_THAT(file("r.svg"), HasSubstr(">attend: own queries<"));
  run("render t.json -o r.svg --no-title --no-legend");
  EXPECT_THAT(file("r.svg"), testing::Not(HasSubstr(">makespan")));
  EXPECT_THAT(file("r.svg"), testing::Not(HasSubstr(">attend: own queries<")));
  std::filesystem::remove(folder_ / "r.svg");
  expect_refused("render t.json -o x.svg --for poster",
                 "--for is poster; use column, text or slide");
  expect_refused("render t.json -o x.svg --for text --width 500",
                 "--for and --width both set the width");
  expect_refused("render t.json -o x.svg --title A --no-title", "contradict each other");
  expect_refused("render t.json -o x.svg --legend --no-legend", "contradict each other");
  expect_refused("render t.json -o x.html --for text", "--for is only for pictures");
  expect_refused("render t.json --no-legend", "--no-legend is only for pictures");
  expect_refused("simulate -w 4 --title A", "--title is only for pictures: --gantt or --block-map");
  expect_refused("simulate -w 4 --gantt x.html --for slide", "--for is only for pictures");
  run("plan -w 8 -o p8.json");
  if (run("render p.json --graph -o y.svg").code == 0) {
    EXPECT_EQ(run("render p.json --graph -o y.svg --for column").code, 0);
    expect_refused("render p8.json --graph -o x.svg --for column", "nobody could read its words");
  }
  EXPECT_EQ(listing().find("x."), std::string::npos) << listing();
}

TEST_F(RenderProgram, RefusesInOneLineAndLeavesNothingBehind) {
  run("simulate -w 2 --timeline t.json");
  run("simulate -w 3 --timeline u.json");
  run("plan -w 2 -o p.json");
  const std::string whole = file("t.json");
  write("half.json", whole.substr(0, whole.size() / 2));
  std::string none = whole.substr(0, whole.find("\"tasks\": ["));
  none.erase(none.find("\"critical_path\""),
             none.find("\"columns\"") - none.find("\"critical_path\""));
  write("none.json", none + "\"tasks\": []\n}\n");
  write("noise.json", "\x89PNG nothing");
  std::filesystem::create_directory(folder_ / "folder.svg");
  std::filesystem::create_directory(folder_ / "shut");
  std::filesystem::permissions(folder_ / "shut", std::filesystem::perms::none);
  const std::string before = listing();

  expect_refused("render t.json -o t.gif", "--output t.gif: use a name that ends in .svg, .pdf");
  expect_refused("render t.json -o .svg", "use a name that ends in");
  expect_refused("render t.json -o folder.svg", "it is a directory");
  expect_refused("render t.json -o gone/t.svg", "cannot write gone/t.svg: no such folder: gone");
  expect_refused("render half.json -o h.svg", "half.json:");
  expect_refused("render none.json -o h.svg", "no tasks: nothing to draw");
  expect_refused("render none.json", "no tasks: nothing to draw");
  expect_refused("render noise.json -o h.svg", "noise.json");
  expect_refused("render gone.json -o h.svg", "gone.json");
  expect_refused("render t.json p.json -o h.svg", "cannot draw plans and timelines in one picture");
  expect_refused("render t.json t.json t.json -o h.svg", "not 3");
  expect_refused("render t.json u.json -o h.svg", "different problems");
  expect_refused("render p.json", "--output");
  expect_refused("render t.json -o h.svg --width 1", "--width is 1; use 400 to 10000");
  expect_refused("render t.json -o h.png --scale 1000", "--scale");
  expect_refused("simulate --gantt h.txt", "--gantt h.txt: use a name that ends in");
  expect_refused("simulate --block-map h", "--block-map h: use a name that ends in");
  // Before the work, so nothing else is written.
  for (const char* command : {"simulate", "run -t 3000"})
    expect_refused(std::string(command) + " -w 300 -s ring --timeline early.json --block-map h.svg",
                   "block map of 300 chunks");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "early.json"));
  if (geteuid() != 0) expect_refused("render t.json -o shut/t.svg", "Permission denied");
  EXPECT_EQ(listing(), before);
  std::filesystem::permissions(folder_ / "shut", std::filesystem::perms::all);
}

TEST_F(RenderProgram, TakesStreamsAndStrangeNames) {
  run("simulate -w 3 --timeline t.json");
  run("plan -w 3 -o p.json");
  run("render t.json -o t.svg");
  run("render p.json -o p.svg");
  EXPECT_EQ(run("render - -o u.svg < t.json").code, 0);
  EXPECT_EQ(run("render - -o q.svg < p.json").code, 0);
  EXPECT_EQ(file("u.svg"), file("t.svg"));
  EXPECT_EQ(file("q.svg"), file("p.svg"));
  std::string text = file("t.json");
  const std::string name = "\"schedule\": \"balanced\"";
  text.replace(text.find(name), name.size(), "\"schedule\": \"@data@\\ufffe</script>\"");
  write("t.json", text);
  ASSERT_EQ(run("render t.json -o t.html").code, 0);
  const std::string page = file("t.html");
  EXPECT_LT(page.find("<title>@data@?&lt;/script&gt;"), page.find("</title>"));
  EXPECT_EQ(page.find("<title>"), page.rfind("<title>"));
}

TEST_F(RenderProgram, DoesNotBelieveWhatTimelinesAndPlansSayOfThemselves) {
  run("simulate -w 3 --timeline t.json");
  run("simulate -w 4 --timeline u.json");
  expect_refused("render t.json u.json -o x.svg", "different problems");
  expect_refused("render u.json t.json -o x.svg", "different problems");
  // Of the same plan, it claims, but on another worker.
  std::string text = file("t.json");
  for (std::size_t at = text.find("\n["); at != text.npos; at = text.find("\n[", at + 1)) {
    at = text.find(',', text.find(',', at) + 1) + 1;
    text[at] = '2';
  }
  write("v.json", text);
  EXPECT_EQ(run("render t.json v.json --worker 0 -o v.svg").code, 0);
  write(
      "p.json",
      R"({"format":"ringsched-plan","version":1,"problem":{"workers":4,"tokens":64,"heads":2,)"
      R"("kv_heads":1,"head_dim":8,"dtype":"bf16","mask":"causal","pass":"forward"},)"
      R"("layout":"contiguous","tasks":[{"do":"attend","in":["Q0","KV0"]},{"do":"send","in":[0]}]})");
  EXPECT_EQ(run("render p.json -o p.dot").code, 0);
}

TEST_F(RenderProgram, NeverWritesOverWhatItReads) {
  run("simulate -w 3 --timeline t.json");
  run("plan -w 3 -o p.json");
  const std::string before = file("t.json");
  expect_refused("render t.json -o t.json", "would overwrite t.json");
  expect_refused("render t.json -o ./t.json", "would overwrite t.json");
  expect_refused("simulate p.json --timeline p.json", "would overwrite p.json");
  expect_refused("simulate -w 3 --timeline u.json --trace u.json", "would overwrite u.json");
  expect_refused("simulate -w 3 --timeline u.json --trace ./u.json", "would overwrite u.json");
  expect_refused("render u.json", "cannot read u.json: No such file or directory");
  expect_refused("render t.json u.json -o v.svg", "cannot read u.json: No such file or directory");
  expect_refused("render t.json --kineto gone/k", "no such folder: ");
  expect_refused("simulate -w 3 --timeline u.json --gantt gone/u.svg", "no such folder: gone");
  expect_refused("render t.json --width 500 -o t.html", "--width is only for charts");
  expect_refused("render t.json --scale 3 -o t.svg", "--scale is only for a .png");
  EXPECT_EQ(file("t.json"), before);
  EXPECT_EQ(listing(), "p.json t.json ");
}

TEST_F(RenderProgram, WritesPagesTracesAndGraphs) {
  run("simulate -w 3 -m dgx-a100 --timeline t.json --trace trace.json --gantt page.html");
  run("simulate -w 3 -s ring --timeline u.json");
  run("plan -w 3 -o p.json");
  EXPECT_THAT(file("page.html"), StartsWith("<!doctype html>"));
  EXPECT_THAT(file("trace.json"), HasSubstr("\"traceEvents\""));
  ASSERT_EQ(run("render t.json -o again.json").code, 0);
  EXPECT_EQ(file("again.json"), file("trace.json"));
  ASSERT_EQ(run("render t.json u.json t.json -o three.html").code, 0);
  EXPECT_GT(file("three.html").size(), file("page.html").size());
  EXPECT_EQ(run("render t.json --kineto k").out, "k\n");
  EXPECT_THAT(file("k/rank-2.json"), HasSubstr("ncclDevKernel_SendRecv"));
  ASSERT_EQ(run("render p.json -o p.dot").code, 0);
  EXPECT_THAT(file("p.dot"), StartsWith("digraph plan {"));
  ASSERT_EQ(run("render p.json --worker 1 --steps 0-1 -o q.dot").code, 0);
  EXPECT_LT(file("q.dot").size(), file("p.dot").size());
  const Outcome drawn = run("render p.json --graph -o p.svg");
  if (drawn.code != 0) {
    EXPECT_THAT(drawn.err, HasSubstr("libgraphviz-dev"));
  } else {
    EXPECT_THAT(file("p.svg"), HasSubstr("worker 2"));
  }
  write("file", "");
  expect_refused("render t.json u.json -o x.json", "one timeline, not 2");
  expect_refused("render t.json u.json --kineto x", "one timeline, not 2");
  expect_refused("render t.json --kineto file/x", "cannot write file/x");
  ASSERT_EQ(run("render t.json --kineto own").code, 0);
  write("own/rank-0.json", file("t.json"));
  expect_refused("render own/rank-0.json --kineto own", "would overwrite own/rank-0.json");
  expect_refused("render t.json --kineto both.svg -o both.svg", "is also --output");
  expect_refused("render p.json --by-step --for nonsense -o x.svg", "use column, text or slide");
  expect_refused("render p.json --kineto x", "--kineto needs a timeline; p.json is a plan");
  expect_refused("render p.json -o x.html", "ends in .svg, .pdf, .png or .dot");
  expect_refused("render p.json p.json --graph -o x.svg", "one plan, not 2");
  expect_refused("render p.json --worker 1 -o x.svg", "--worker needs a task graph: add --graph");
  expect_refused("render p.json --steps 1 -o x.svg", "--steps needs a task graph: add --graph");
  expect_refused("render p.json --graph --by-step -o x.svg", "leave out --graph or --by-step");
  expect_refused("render p.json --by-step -o x.dot", "write a .svg, .pdf or .png");
  expect_refused("render p.json --worker 3 -o x.dot", "workers 0 to 2");
  expect_refused("render p.json --steps 5 -o x.dot", "steps 0 to 2");
  expect_refused("render p.json --steps 1-x -o x.dot", "--steps");
  expect_refused("render p.json --steps 1- -o x.dot",
                 "--steps is '1-'; use one step (3) or a range (2-5)");
  expect_refused("render t.json --scale 21 -o x.png", "0.1 to 20");
  expect_refused("render t.json --graph -o x.svg", "--graph needs a plan; t.json is a timeline");
  expect_refused("render t.json --steps 1 -o x.svg", "--steps needs a plan; t.json is a timeline");
  expect_refused("render t.json --worker 3 -o x.svg", "workers 0 to 2");
  EXPECT_EQ(listing().find("x."), std::string::npos) << listing();
}

}  // namespace
