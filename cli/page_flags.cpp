#include "page_flags.hpp"

#include <CLI/CLI.hpp>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

void PageFlags::add_to(CLI::App& app, const char* group) {
  app.add_option("--for", medium_,
                 "size of the picture: column (238 points wide), text (506, the full text width "
                 "on a page) "
                 "or slide (960); with column and text, labels are 7 points high")
      ->type_name("MEDIUM")
      ->group(group);
  app.add_option("--title", title_, "title to draw instead of the default")
      ->type_name("TEXT")
      ->group(group);
  app.add_flag("--no-title", no_title_, "draw no title (the default with --for column or text)")
      ->group(group);
  app.add_flag("--legend", legend_, "draw a legend even with --for column or text")->group(group);
  app.add_flag("--no-legend", no_legend_, "draw no legend (the default with --for column or text)")
      ->group(group);
}

Page PageFlags::page() const {
  Page page;
  if (!medium_.empty()) page = page_for(medium_);
  if (no_title_ && !title_.empty()) fail("--title and --no-title contradict each other");
  if (no_title_) page.heading = false;
  page.title = title_;
  if (legend_ && no_legend_) fail("--legend and --no-legend contradict each other");
  page.legend = (page.legend || legend_) && !no_legend_;
  page.key = !no_legend_;
  return page;
}

void PageFlags::refuse(const std::string& why) const {
  for (const auto& [flag, given] : {std::pair{"--for", !medium_.empty()},
                                    {"--title", !title_.empty()},
                                    {"--no-title", no_title_},
                                    {"--legend", legend_},
                                    {"--no-legend", no_legend_}})
    if (given) fail("{} {}", flag, why);
}

}  // namespace ringsched
