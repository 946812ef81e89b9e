// Pictures as SVG, one element to a line: small, readable, and the same bytes on every machine.
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "ringsched/scheduler/printable.hpp"
#include "ringsched/viz/picture.hpp"
#include "xml.hpp"

namespace ringsched {

namespace {

// Two digits are a hundredth of a point. No "-0", no trailing zeros.
std::string number(double x) {
  const auto hundredths = std::llround(x * 100);
  std::string text = fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "",
                                 std::llabs(hundredths) / 100, std::llabs(hundredths) % 100);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string path(const std::vector<Point>& points) {
  std::string d;
  for (const Point& p : points)
    d += fmt::format("{}{} {}", d.empty() ? "M" : "L", number(p.x), number(p.y));
  return d;
}

const char* pattern(Hatch hatch) { return hatch == Hatch::Diagonal ? "url(#d)" : "url(#o)"; }

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  // Boxes of one colour without text become one element.
  void plain_boxes(const std::vector<const Box*>& boxes) {
    std::string d;
    for (const Box* b : boxes)
      d += fmt::format("M{} {}h{}v{}h-{}z", number(b->x), number(b->y), number(b->width),
                       number(b->height), number(b->width));
    add("<path d=\"{}\" fill=\"{}\"", d, hex(*boxes[0]->fill));
    end({});
  }
  void operator()(const Box& b) {
    if (b.fill || !b.about.empty()) {
      begin_rect(b, 0);
      add(" fill=\"{}\"", b.fill ? hex(*b.fill) : "none");
      end(b.hatch == Hatch::None && !b.outline ? b.about : std::string());
    }
    if (b.hatch != Hatch::None) {
      begin_rect(b, 0);
      add(" fill=\"{}\"", pattern(b.hatch));
      end(b.outline ? std::string() : b.about);
    }
    if (!b.outline) return;
    begin_rect(b, b.outline_width / 2);
    add(" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"", hex(*b.outline),
        number(b.outline_width));
    end(b.about);
  }
  void operator()(const Stroke& s) {
    add("<path d=\"{}\" fill=\"none\" stroke=\"{}\"", path(s.points), hex(s.colour));
    if (s.width != 1) add(" stroke-width=\"{}\"", number(s.width));
    if (s.dashed) add(" stroke-dasharray=\"3 3\"");
    if (s.arrow) add(" marker-end=\"url(#a)\"");
    end({});
  }
  void operator()(const Area& a) {
    add("<path d=\"{}Z\" fill=\"{}\"", path(a.corners), hex(a.fill));
    if (a.opacity != 1) add(" fill-opacity=\"{}\"", number(a.opacity));
    end(a.about, "path");
  }
  void operator()(const Label& l) {
    add("<text x=\"{}\" y=\"{}\"", number(l.x), number(l.y));
    if (l.size != 11) add(" font-size=\"{}\"", number(l.size));
    if (l.anchor != Anchor::Start)
      add(" text-anchor=\"{}\"", l.anchor == Anchor::Middle ? "middle" : "end");
    if (l.bold) add(" font-weight=\"bold\"");
    if (l.colour != ink::black) add(" fill=\"{}\"", hex(l.colour));
    add(">{}</text>\n", escaped_xml(l.text));
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }
  void begin_rect(const Box& b, double inset) {
    add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(b.x + inset),
        number(b.y + inset), number(std::max(0.0, b.width - 2 * inset)),
        number(std::max(0.0, b.height - 2 * inset)));
  }
  void end(const std::string& about, const char* element = "rect") {
    if (about.empty()) {
      out_ += "/>\n";
    } else {
      add("><title>{}</title></{}>\n", escaped_xml(about), element);
    }
  }

  std::string& out_;
};

// A box that is nothing but its colour.
const Box* plain(const Shape& s) {
  const auto* b = std::get_if<Box>(&s);
  return b && b->fill && b->hatch == Hatch::None && !b->outline && b->about.empty() ? b : nullptr;
}

constexpr std::string_view kPatterns =
    R"svg(<defs>
<pattern id="d" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V5" stroke="#fff" stroke-width="2.4"/></pattern>
<pattern id="o" width="4" height="4" patternUnits="userSpaceOnUse"><circle cx="1" cy="1" r=".6" fill="#b4b4b4"/></pattern>
<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8Z" fill="#1a1a1a"/></marker>
</defs>
)svg";

}  // namespace

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : printable(text, 400)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string svg(const Picture& p) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}{4}\" height=\"{1}{4}\" viewBox=\"0 0 "
      "{0} "
      "{1}\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" font-size=\"11\" "
      "fill=\"{2}\" role=\"img\">\n<title>{3}</title>\n",
      number(p.width), number(p.height), hex(ink::black), escaped_xml(p.title),
      p.in_points ? "pt" : "");
  out += kPatterns;
  out += fmt::format("<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n", number(p.width),
                     number(p.height));
  Writer writer(out);
  for (std::size_t i = 0; i < p.shapes.size();) {
    std::vector<const Box*> alike;
    for (std::size_t k = i; k < p.shapes.size(); ++k) {
      const Box* b = plain(p.shapes[k]);
      if (!b || (!alike.empty() && *b->fill != *alike[0]->fill)) break;
      alike.push_back(b);
    }
    if (alike.size() > 1) {
      writer.plain_boxes(alike);
      i += alike.size();
    } else {
      std::visit(writer, p.shapes[i++]);
    }
  }
  return out + "</svg>\n";
}

}  // namespace ringsched
